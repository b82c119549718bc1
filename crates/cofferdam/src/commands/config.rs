//! `cofferdam config`: the configuration that holds, and where each value came from.

use cofferdam_policy::document::{Origin, print};
use serde_json::{Map, Value, json};

use crate::{
    cli::{ConfigArgs, ConfigCommand},
    config::{self, Config},
    error::CommandError,
    exit::Exit,
    output,
};

pub(super) fn config(
    arguments: ConfigArgs,
    load: impl FnOnce() -> Result<Config, CommandError>,
) -> Result<Exit, CommandError> {
    let printed = match arguments.command {
        // Asked for when the file is wrong, too.
        ConfigCommand::Schema => output::json(config::schema()),
        ConfigCommand::Show(arguments) => {
            let as_json = arguments.form.json;
            let config = arguments.resolve(load()?)?;
            if as_json { output::json(&value(&config)) } else { output::result(&text(&config)) }
        }
    };
    printed.map_err(CommandError::Output)?;
    Ok(Exit::Success)
}

fn text(config: &Config) -> String {
    let file = match &config.file {
        Some(file) => format!("# {}\n\n", file.path.display()),
        None => "# No configuration file.\n\n".to_owned(),
    };
    let not_armed = config.not_armed();
    let note = |key: &str| {
        let origin = config.origin_text(key)?;
        let not_armed = not_armed.contains(&key);
        Some(if not_armed { format!("{origin}; not enforced yet") } else { origin })
    };
    file + &print(&config.entries(), note)
}

fn value(config: &Config) -> Value {
    let not_armed = config.not_armed();
    let mut values = Map::new();
    for entry in config.entries() {
        let key = entry.key();
        let origin = config.origins.get(&key).map(|origin| origin_value(config, origin));
        let enforced = !not_armed.contains(&key.as_str());
        let value = json!({ "value": entry.value, "origin": origin, "enforced": enforced });
        values.insert(key, value);
    }
    let file = config.file.as_ref().map(|file| file.path.to_string_lossy());
    json!({ "file": file, "values": values })
}

fn origin_value(config: &Config, origin: &Origin) -> Value {
    match origin {
        Origin::Default => json!({ "from": "default" }),
        Origin::Line { line } => {
            let file = config.file.as_ref().map(|file| file.path.to_string_lossy());
            json!({ "from": "file", "file": file, "line": line })
        }
        Origin::Inherited { from, line } => json!({ "from": "file", "file": from, "line": line }),
        Origin::Variable { name } => json!({ "from": "variable", "name": name }),
        Origin::Option { name } => json!({ "from": "option", "name": name }),
    }
}
