//! From the protocol's words to MCP's and back: pure functions.
//!
//! What goes into a result's text is the worker's normalized object, never parsed or changed here.

use std::sync::Arc;

use cofferdam_protocol::{
    ErrorCode, Failure,
    tool::{self, ToolDescription},
};
use rmcp::model::{CallToolResult, ContentBlock, JsonObject, MetaObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

use crate::settings::{ResultForm, ToolNames};

/// Text of this many characters still reaches the model whole in clients that ask tools for it.
const MAX_RESULT_CHARACTERS: u64 = 200_000;
/// The tools whose results hold what a run printed.
const RUN_TOOLS: [&str; 2] = ["python_coding_tool.execute", "bash_coding_tool.execute"];
/// Clients hide the tool with this ending from models, which works for the dotted name only.
const NOT_FOR_MODELS: &str = ".get_attribute_payload";

/// One tool as it is listed, beside the canonical name by which the worker knows it.
#[derive(Debug)]
pub(crate) struct ListedTool {
    pub(crate) canonical: &'static str,
    pub(crate) tool: Tool,
}

/// The catalogue as MCP tools, in catalogue order.
pub(crate) fn listed_tools(names: ToolNames, form: ResultForm) -> Vec<ListedTool> {
    let mut listed = Vec::new();
    for description in tool::catalogue() {
        for name in spellings(description.name, names) {
            listed.push(ListedTool {
                canonical: description.name,
                tool: mcp_tool(&description, name, form),
            });
        }
    }
    listed
}

fn spellings(name: &str, names: ToolNames) -> Vec<String> {
    match names {
        ToolNames::Dotted => vec![name.to_owned()],
        ToolNames::Underscore => vec![tool::underscored(name)],
        ToolNames::Both if name.ends_with(NOT_FOR_MODELS) => vec![name.to_owned()],
        ToolNames::Both => vec![name.to_owned(), tool::underscored(name)],
    }
}

fn mcp_tool(description: &ToolDescription, name: String, form: ResultForm) -> Tool {
    let annotations = ToolAnnotations::with_title(description.title)
        .read_only(description.read_only)
        .destructive(description.destructive)
        .idempotent(description.idempotent)
        .open_world(description.open_world);
    let mut tool =
        Tool::new(name, description.description.clone(), object(description.input_schema.clone()))
            .with_title(description.title)
            .with_annotations(annotations);
    if description.wrapped && form == ResultForm::Wrapped {
        tool = tool.with_raw_output_schema(Arc::new(object(tool::wrapped_output_schema())));
    }
    if RUN_TOOLS.contains(&description.name) {
        tool = tool.with_meta(meta("anthropic/maxResultSizeChars", json!(MAX_RESULT_CHARACTERS)));
    }
    tool
}

/// The result of a call that finished.
pub(crate) fn done(value: Value, wrapped: bool) -> CallToolResult {
    if value.is_object() {
        success(value, wrapped)
    } else {
        failure(&Failure::new(ErrorCode::Internal, "the worker's result is not an object"))
    }
}

fn success(value: Value, wrapped: bool) -> CallToolResult {
    let mut result = CallToolResult::success(vec![ContentBlock::text(value.to_string())]);
    if wrapped {
        result.structured_content = Some(json!({ "result": value }));
        result.meta = Some(meta("fastmcp", json!({ "wrap_result": true })));
    } else {
        result.structured_content = Some(value);
    }
    result
}

/// A failure as an `isError` result: the bare message for the model, the rest beside it.
pub(crate) fn failure(failure: &Failure) -> CallToolResult {
    let mut about = JsonObject::new();
    about.insert("code".to_owned(), json!(failure.code.as_str()));
    about.insert("hint".to_owned(), json!(failure.hint));
    if let Some(milliseconds) = failure.retry_after_ms {
        about.insert("retry_after_ms".to_owned(), json!(milliseconds));
    }
    let mut result = CallToolResult::error(vec![ContentBlock::text(failure.message.clone())]);
    result.meta = Some(meta("cofferdam", Value::Object(about)));
    result
}

fn meta(key: &str, value: Value) -> MetaObject {
    let mut entries = JsonObject::new();
    entries.insert(key.to_owned(), value);
    MetaObject(entries)
}

fn object(schema: Value) -> JsonObject {
    match schema {
        Value::Object(fields) => fields,
        // The catalogue's schemas are objects by construction.
        _ => JsonObject::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(spelling: ToolNames) -> Vec<String> {
        let listed = listed_tools(spelling, ResultForm::Wrapped);
        listed.iter().map(|listed| listed.tool.name.to_string()).collect()
    }

    #[test]
    fn names_are_listed_as_set_and_stay_legal_and_unique() {
        assert!(names(ToolNames::Dotted).iter().all(|name| name.contains('.')));
        assert!(names(ToolNames::Underscore).iter().all(|name| !name.contains('.')));
        let both = names(ToolNames::Both);
        let hidden = both.iter().filter(|name| name.contains("get_attribute_payload"));
        assert_eq!(hidden.collect::<Vec<_>>(), ["executor.get_attribute_payload"]);
        let underscored: std::collections::BTreeSet<_> =
            names(ToolNames::Dotted).iter().map(|name| tool::underscored(name)).collect();
        assert_eq!(underscored.len(), names(ToolNames::Dotted).len());
        for name in both {
            assert!(name.len() <= 45 && !name.starts_with('_'), "{name}");
        }
    }

    #[test]
    fn every_tool_has_all_hints_and_a_title_and_a_closed_schema() {
        for ListedTool { tool, .. } in listed_tools(ToolNames::Dotted, ResultForm::Wrapped) {
            let tool = serde_json::to_value(tool).unwrap();
            for hint in ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"] {
                assert!(tool["annotations"][hint].is_boolean(), "{hint} of {tool}");
            }
            assert_eq!(tool["annotations"]["title"], tool["title"]);
            assert_eq!(tool["inputSchema"]["type"], "object");
            assert_eq!(tool["inputSchema"]["additionalProperties"], false);
            assert!(tool["inputSchema"]["properties"].is_object());
            let description = tool["description"].as_str().unwrap();
            assert!(description.len() < 2_048 && description.contains("Args:"), "{description}");
        }
    }

    #[test]
    fn a_run_tool_is_listed_with_its_output_schema_and_how_much_a_client_may_show() {
        let find = |form| {
            listed_tools(ToolNames::Dotted, form)
                .into_iter()
                .find(|listed| listed.canonical == RUN_TOOLS[1])
                .map(|listed| serde_json::to_value(listed.tool).unwrap())
                .unwrap()
        };
        let mut tool = find(ResultForm::Wrapped);
        tool["description"] = json!("…");
        tool["inputSchema"] = json!("…");
        insta::assert_json_snapshot!(tool, @r#"
        {
          "name": "bash_coding_tool.execute",
          "title": "Run Bash in a sandbox",
          "description": "…",
          "inputSchema": "…",
          "outputSchema": {
            "type": "object",
            "properties": {
              "result": {},
              "img_path": {
                "oneOf": [
                  {
                    "type": "string"
                  },
                  {
                    "type": "array",
                    "items": {
                      "type": "string"
                    }
                  }
                ]
              }
            },
            "additionalProperties": true,
            "x-fastmcp-wrap-result": true
          },
          "annotations": {
            "title": "Run Bash in a sandbox",
            "readOnlyHint": false,
            "destructiveHint": true,
            "idempotentHint": false,
            "openWorldHint": false
          },
          "_meta": {
            "anthropic/maxResultSizeChars": 200000
          }
        }
        "#);
        assert_eq!(find(ResultForm::Plain).get("outputSchema"), None);
    }

    #[test]
    fn the_tool_that_is_not_wrapped_has_no_output_schema() {
        for listed in listed_tools(ToolNames::Dotted, ResultForm::Wrapped) {
            let is_plain = listed.canonical.ends_with(NOT_FOR_MODELS);
            assert_eq!(listed.tool.output_schema.is_none(), is_plain, "{}", listed.canonical);
        }
    }

    #[test]
    fn a_result_that_is_no_object_is_a_fault() {
        let result = done(json!(["messages"]), true);
        assert_eq!(result.is_error, Some(true));
        assert_eq!(result.structured_content, None);
    }

    #[test]
    fn key_order_and_numbers_survive() {
        let object = json!({ "z": 1, "a": u64::MAX, "m": -1.5, "n": i64::MIN });
        let result = done(object.clone(), true);
        let text = serde_json::to_value(&result.content[0]).unwrap()["text"].clone();
        let expected = r#"{"z":1,"a":18446744073709551615,"m":-1.5,"n":-9223372036854775808}"#;
        assert_eq!(text, expected);
        assert_eq!(result.structured_content, Some(json!({ "result": object })));
    }
}
