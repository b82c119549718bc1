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
