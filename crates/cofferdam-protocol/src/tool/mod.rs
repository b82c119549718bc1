//! The catalogue: every tool, its arguments and its schema.
//!
//! A tool is one struct of arguments and one row here. The schema is generated from the struct and
//! is also what arguments are checked against, so what a client is told is what is enforced.

mod execute;

pub use execute::{BashExecute, PythonExecute};

use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

use crate::{ErrorCode, Failure, arguments, digest};

/// The most source code one call may carry, in bytes. More belongs in a file.
pub const MAX_CODE_BYTES: usize = 4 * 1024 * 1024;

/// One call of one tool, its arguments checked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "tool", content = "arguments")]
pub enum ToolCall {
    /// `python_coding_tool.execute`
    #[serde(rename = "python_coding_tool.execute")]
    Python(PythonExecute),
    /// `bash_coding_tool.execute`
    #[serde(rename = "bash_coding_tool.execute")]
    Bash(BashExecute),
    /// `executor.get_attribute_payload`
    #[serde(rename = "executor.get_attribute_payload")]
    Attribute(AttributePayload),
}

/// Arguments of `executor.get_attribute_payload`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AttributePayload {
    /// Name of the value: one of last_stdout, last_stderr, last_returncode, sandbox, limits,
    /// capabilities.
    pub name: String,
}

/// What a client is told of a tool. Wire-neutral: the gateway turns it into MCP.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ToolDescription {
    /// Canonical, dotted name.
    pub name: &'static str,
    /// For people.
    pub title: &'static str,
    /// For the model: first what it does, then an `Args:` block.
    pub description: String,
    /// JSON Schema of the arguments.
    pub input_schema: Value,
    /// Whether the result is wrapped as `{"result": N}` (EAA's form) and has an output schema.
    pub wrapped: bool,
    /// The tool changes nothing.
    pub read_only: bool,
    /// The tool may destroy something that was there.
    pub destructive: bool,
    /// Calling it again with the same arguments changes nothing more.
    pub idempotent: bool,
    /// The tool may reach beyond this machine.
    pub open_world: bool,
}

/// Made once: generating the schemas takes longer than all else that is done to a call's arguments.
static CATALOGUE: LazyLock<Vec<ToolDescription>> = LazyLock::new(describe_all);

/// Every tool, in the order in which they are listed.
pub fn catalogue() -> Vec<ToolDescription> {
    CATALOGUE.clone()
}

fn describe_all() -> Vec<ToolDescription> {
    vec![
        ToolDescription {
            wrapped: true,
            read_only: false,
            destructive: true,
            idempotent: false,
            open_world: false,
            ..describe::<PythonExecute>(
                "python_coding_tool.execute",
                "Run Python in a sandbox",
                "Execute Python source code in an isolated sandbox on the workspace. Each call is a \
                 fresh process; files written in the workspace stay. Returns stdout, stderr and \
                 returncode, and how strongly the run was held.",
            )
        },
        ToolDescription {
            wrapped: true,
            read_only: false,
            destructive: true,
            idempotent: false,
            open_world: false,
            ..describe::<BashExecute>(
                "bash_coding_tool.execute",
                "Run Bash in a sandbox",
                "Execute Bash source code in an isolated sandbox on the workspace. Each call is a \
                 fresh shell; files written in the workspace stay. Returns stdout, stderr and \
                 returncode, and how strongly the run was held.",
            )
        },
        ToolDescription {
            wrapped: false,
            read_only: true,
            destructive: false,
            idempotent: true,
            open_world: false,
            ..describe::<AttributePayload>(
                "executor.get_attribute_payload",
                "Read a value of the executor",
                "Return one named value of this session's executor, for programs that drive the \
                 tools (not for models).",
            )
        },
    ]
}

/// JSON Schema of the result of the tools that keep EAA's wrapped form.
pub fn wrapped_output_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "result": {},
            "img_path": { "oneOf": [
                { "type": "string" },
                { "type": "array", "items": { "type": "string" } }
            ] }
        },
        "additionalProperties": true,
        "x-fastmcp-wrap-result": true
    })
}

impl ToolCall {
    /// Checks arguments and makes a call of them.
    ///
    /// `name` may be written with dots or, for clients that cannot, with underscores.
    ///
    /// # Errors
    /// `unknown_tool`, or `invalid_arguments` with a message that names the argument and what was
    /// expected.
    pub fn parse(name: &str, arguments: Map<String, Value>) -> Result<Self, Failure> {
        let known = known(name).ok_or_else(|| {
            let names: Vec<_> = CATALOGUE.iter().map(|tool| tool.name).collect();
            Failure::new(ErrorCode::UnknownTool, format!("Unknown tool: '{name}'"))
                .with_hint(format!("the tools are {}", names.join(", ")))
        })?;
        let schema = &known.input_schema;
        match known.name {
            "python_coding_tool.execute" => {
                let call = Self::Python(checked(schema, arguments)?);
                call.check().map(|()| call)
            }
            "bash_coding_tool.execute" => {
                let call = Self::Bash(checked(schema, arguments)?);
                call.check().map(|()| call)
            }
            _ => Ok(Self::Attribute(checked(schema, arguments)?)),
        }
    }

    /// Checks the bounds that the types cannot say.
    ///
    /// [`parse`](Self::parse) does so; whoever gets a call from another process does it again.
    ///
    /// # Errors
    /// `invalid_arguments` with a message that names the argument and the bound.
    pub fn check(&self) -> Result<(), Failure> {
        match self {
            Self::Python(call) => {
                execute::check(&call.code, call.timeout, call.input_text.as_deref())
            }
            Self::Bash(call) => {
                execute::check(&call.code, call.timeout, call.input_text.as_deref())
            }
            Self::Attribute(_) => Ok(()),
        }
    }

    /// sha256 of the checked arguments as canonical JSON, in hexadecimal: see [`digest`].
    ///
    /// Arguments that mean the same to the tool (`"5"` and `5`, a value left out and its default) have
    /// the same digest.
    ///
    /// # Errors
    /// `internal` when the arguments cannot be written as JSON, which checked ones always can.
    pub fn digest(&self) -> Result<String, Failure> {
        let digest = match self {
            Self::Python(call) => digest::of(call),
            Self::Bash(call) => digest::of(call),
            Self::Attribute(call) => digest::of(call),
        };
        digest
            .map_err(|_| Failure::new(ErrorCode::Internal, "the arguments cannot be written down"))
    }

    /// Canonical name of the tool that is called.
    pub fn tool_name(&self) -> &'static str {
        match self {
            Self::Python(_) => "python_coding_tool.execute",
            Self::Bash(_) => "bash_coding_tool.execute",
            Self::Attribute(_) => "executor.get_attribute_payload",
        }
    }
}

/// The canonical name behind either spelling, if there is such a tool.
pub fn canonical_name(name: &str) -> Option<&'static str> {
    known(name).map(|tool| tool.name)
}

fn known(name: &str) -> Option<&'static ToolDescription> {
    CATALOGUE.iter().find(|tool| tool.name == name || underscored(tool.name) == name)
}

/// A tool's name for clients that accept only letters, digits, `_` and `-`.
pub fn underscored(name: &str) -> String {
    name.replace('.', "_")
}

fn checked<T: DeserializeOwned>(schema: &Value, given: Map<String, Value>) -> Result<T, Failure> {
    let coerced = arguments::coerce(schema, given)?;
    serde_json::from_value(Value::Object(coerced))
        .map_err(|error| Failure::new(ErrorCode::InvalidArguments, error.to_string()))
}

fn describe<T: JsonSchema>(
    name: &'static str,
    title: &'static str,
    summary: &str,
) -> ToolDescription {
    let input_schema = arguments::schema::<T>();
    ToolDescription {
        name,
        title,
        description: format!("{summary}\n\n{}", arguments::args_block(&input_schema)),
        input_schema,
        wrapped: false,
        read_only: false,
        destructive: true,
        idempotent: false,
        open_world: true,
    }
}
