//! `cofferdam tools`: what is served, as a table for people or as JSON for programs.

use cofferdam_policy::RunTimeRules;
use cofferdam_protocol::{ToolDescription, tool::catalogue};
use serde_json::Value;

use crate::{config::Config, error::CommandError, exit::Exit, output};

pub(super) fn tools(json: bool, config: &Config) -> Result<Exit, CommandError> {
    let served = |tool: &ToolDescription| {
        // What is set at run time is a running server's own, so no clock is asked.
        config.tools.is_active(&RunTimeRules::default(), tool.name, 0)
    };
    let tools: Vec<_> = catalogue().into_iter().filter(served).collect();
    let printed = if json {
        serde_json::to_value(&tools)
            .map_err(std::io::Error::other)
            .and_then(|all| output::json(&all))
    } else {
        output::result(&table(&tools))
    };
    printed.map_err(CommandError::Output)?;
    Ok(Exit::Success)
}

fn table(tools: &[ToolDescription]) -> String {
    let mut table = String::new();
    for tool in tools {
        table.push_str(&format!("{}\n  {}\n", tool.name, tool.title));
        let none = serde_json::Map::new();
        let properties = tool.input_schema["properties"].as_object().unwrap_or(&none);
        let width = properties.keys().map(String::len).max().unwrap_or_default();
        for (name, property) in properties {
            table.push_str(&format!("    {name:width$}  {}\n", summary(property)));
        }
        table.push('\n');
    }
    table.push_str("`cofferdam tools --json` shows the schemas.\n");
    table
}

/// Type and first sentence of an argument.
fn summary(property: &Value) -> String {
    let kind = match &property["type"] {
        Value::String(kind) => kind.clone(),
        Value::Array(kinds) => {
            kinds.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or ")
        }
        _ => "any".to_owned(),
    };
    let text = property["description"].as_str().unwrap_or_default();
    let sentence = text.split_once(". ").map_or(text, |(first, _)| first);
    format!("{kind}: {}", sentence.trim_end_matches('.'))
}
