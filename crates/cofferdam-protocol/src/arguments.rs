//! Arguments as a client wrote them, checked and coerced by a tool's own schema.
//!
//! The schema that clients are shown is the one that decides here: what is told and what is
//! enforced cannot drift apart. Only the flat objects that tools take are supported; this is not a
//! general JSON Schema validator.

use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Map, Number, Value, json};

use crate::{ErrorCode, Failure};

/// The schema of a tool's arguments, in the form that clients in the field take.
///
/// Always `type: object` with `properties` and `additionalProperties: false`; optional values are
/// nullable with `default: null`; no `$schema`, `title` or number formats, which some clients
/// reject.
pub fn schema<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let generated = settings.into_generator().into_root_schema_for::<T>().to_value();
    let mut properties = Map::new();
    let declared = generated.get("properties").and_then(Value::as_object);
    for (name, property) in declared.into_iter().flatten() {
        let mut property = property.clone();
        if let Some(fields) = property.as_object_mut() {
            fields.remove("format");
            if let Some(Value::String(text)) = fields.get_mut("description") {
                *text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            }
            if accepts(fields.get("type"), "null") {
                fields.entry("default").or_insert(Value::Null);
            }
        }
        properties.insert(name.clone(), property);
    }
    json!({
        "type": "object",
        "properties": properties,
        "required": generated.get("required").cloned().unwrap_or_else(|| json!([])),
        "additionalProperties": false
    })
}

/// The `Args:` block of a description, from which some clients take the parameters' descriptions.
pub fn args_block(schema: &Value) -> String {
    let mut block = String::from("Args:");
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let text = property["description"].as_str().unwrap_or_default();
        block.push_str(&format!("\n    {name}: {text}"));
    }
    block
}

/// Checks `given` against `schema` and coerces what may be coerced.
///
/// Numeric strings stand for numbers, `1.0` for an integer, `"true"` and `"false"` for booleans.
///
/// # Errors
/// `invalid_arguments`, naming the argument and what was expected.
pub fn coerce(schema: &Value, given: Map<String, Value>) -> Result<Map<String, Value>, Failure> {
    let no_properties = Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&no_properties);
    let mut coerced = Map::new();
    for (name, value) in given {
        let Some(property) = properties.get(&name) else {
            return Err(unknown(&name, properties));
        };
        let value = coerce_value(&name, &property["type"], value)
            .map_err(|failure| explained(failure, &name, property))?;
        coerced.insert(name, value);
    }
    for required in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if !coerced.contains_key(required) {
            let expected = kinds(&properties[required]["type"]);
            let missing = Failure::new(
                ErrorCode::InvalidArguments,
                format!("missing argument `{required}` (expected {expected})"),
            );
            return Err(explained(missing, required, &properties[required]));
        }
    }
    Ok(coerced)
}

fn unknown(name: &str, properties: &Map<String, Value>) -> Failure {
    let failure = Failure::new(
        ErrorCode::InvalidArguments,
        format!("unknown argument `{}`", printable(name)),
    );
    let nearest = properties
        .keys()
        .map(|known| (strsim::jaro_winkler(known, name), known))
        .max_by(|left, right| left.0.total_cmp(&right.0));
    match nearest {
        Some((likeness, known)) if likeness > 0.8 => {
            failure.with_hint(format!("did you mean `{known}`?"))
        }
        _ => {
            let known: Vec<_> = properties.keys().map(String::as_str).collect();
            failure.with_hint(format!("the arguments are {}", known.join(", ")))
        }
    }
}

/// The same failure with what the argument is for, as the client was told.
fn explained(failure: Failure, name: &str, property: &Value) -> Failure {
    match property["description"].as_str() {
        Some(description) => failure.with_hint(format!("{name}: {description}")),
        None => failure,
    }
}

fn coerce_value(name: &str, kind: &Value, value: Value) -> Result<Value, Failure> {
    let wanted = |name: &str| accepts(Some(kind), name);
    let coerced = match &value {
        Value::Null if wanted("null") => Some(Value::Null),
        Value::Bool(_) if wanted("boolean") => Some(value.clone()),
        Value::Number(number) if wanted("number") || wanted("integer") => {
            as_number(number.clone(), wanted("number"))
        }
        Value::String(_) if wanted("string") => Some(value.clone()),
        Value::String(text) if wanted("number") || wanted("integer") => {
            parse_number(text).and_then(|number| as_number(number, wanted("number")))
        }
        Value::String(text) if wanted("boolean") => match text.as_str() {
            "true" | "True" => Some(Value::Bool(true)),
            "false" | "False" => Some(Value::Bool(false)),
            _ => None,
        },
        Value::Array(_) if wanted("array") => Some(value.clone()),
        Value::Object(_) if wanted("object") => Some(value.clone()),
        _ => None,
    };
    coerced.ok_or_else(|| {
        Failure::new(
            ErrorCode::InvalidArguments,
            format!("argument `{name}` must be {}, got {}", kinds(kind), describe(&value)),
        )
    })
}

fn parse_number(text: &str) -> Option<Number> {
    let text = text.trim();
    if let Ok(integer) = text.parse::<i64>() {
        return Some(integer.into());
    }
    // "nan" and "inf" parse as floats but are no JSON numbers: `from_f64` refuses them.
    text.parse::<f64>().ok().and_then(Number::from_f64)
}

fn as_number(number: Number, fraction_allowed: bool) -> Option<Value> {
    if fraction_allowed || !number.is_f64() {
        return Some(Value::Number(number));
    }
    let float = number.as_f64()?;
    // 2^53: beyond it a float no longer names one integer.
    (float.fract() == 0.0 && float.abs() <= 9_007_199_254_740_992.0)
        .then(|| Value::Number((float as i64).into()))
}

fn accepts(kind: Option<&Value>, name: &str) -> bool {
    match kind {
        Some(Value::String(one)) => one == name,
        Some(Value::Array(several)) => several.iter().any(|one| one == name),
        _ => false,
    }
}

fn kinds(kind: &Value) -> String {
    match kind {
        Value::Array(several) => {
            several.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or ")
        }
        one => one.as_str().unwrap_or("a value").to_owned(),
    }
}

fn describe(value: &Value) -> String {
    match value {
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        Value::String(text) => format!("the string {:?}", printable(text)),
        other => other.to_string(),
    }
}

/// At most 60 characters of text that a client chose, fit to be shown in a message.
fn printable(text: &str) -> String {
    let mut shown: String = text.chars().take(60).flat_map(char::escape_debug).collect();
    if text.chars().nth(60).is_some() {
        shown.push('…');
    }
    shown
}
