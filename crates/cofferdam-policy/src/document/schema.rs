//! The JSON Schema of a raw type, in the form that TOML can express.

use schemars::{JsonSchema, Schema, transform::Transform};
use serde_json::Value;

/// The schema of `T`, draft 2020-12.
///
/// TOML has no null, so an optional key is one that may be left out: the `null` alternatives and
/// defaults that an `Option` brings are removed.
pub fn schema_for<T: JsonSchema>() -> Value {
    let mut schema = schemars::generate::SchemaSettings::draft2020_12()
        .with_transform(WithoutNull)
        .into_generator()
        .into_root_schema_for::<T>();
    schemars::transform::RecursiveTransform(ForPeople).transform(&mut schema);
    schema.to_value()
}

/// Removes `null` wherever it is allowed.
#[derive(Clone, Debug)]
struct WithoutNull;

impl Transform for WithoutNull {
    fn transform(&mut self, schema: &mut Schema) {
        schemars::transform::transform_subschemas(self, schema);
        let Some(object) = schema.as_object_mut() else { return };
        if object.get("default").is_some_and(Value::is_null) {
            object.remove("default");
        }
        if let Some(Value::Array(types)) = object.get_mut("type") {
            types.retain(|one| one != "null");
            if let [only] = types.as_slice() {
                let only = only.clone();
                object.insert("type".to_owned(), only);
            }
        }
        let Some(Value::Array(mut choices)) = object.remove("anyOf") else { return };
        choices.retain(|choice| choice.get("type").is_none_or(|kind| kind != "null"));
        match choices.as_mut_slice() {
            [Value::Object(only)] => {
                for (key, value) in std::mem::take(only) {
                    object.entry(key).or_insert(value);
                }
            }
            _ => {
                object.insert("anyOf".to_owned(), Value::Array(choices));
            }
        }
    }
}

/// Removes what only means something in Rust: `format` names its number types, and descriptions
/// break where the source does.
#[derive(Clone, Debug)]
struct ForPeople;

impl Transform for ForPeople {
    fn transform(&mut self, schema: &mut Schema) {
        schema.remove("format");
        if let Some(Value::String(text)) = schema.get_mut("description") {
            let paragraphs: Vec<_> = text.split("\n\n").map(|one| one.replace('\n', " ")).collect();
            *text = paragraphs.join("\n\n");
        }
    }
}

/// One place in a schema, with references followed.
#[derive(Clone, Copy)]
pub(super) struct Node<'a> {
    root: &'a Value,
    here: &'a Value,
    /// The example of an entry, which only the map around it has.
    example: Option<&'a Value>,
}

/// What a [`Node`] allows.
pub(super) enum Kind<'a> {
    /// Named keys, all known.
    Table,
    /// Any keys, with values of one kind.
    Map(Node<'a>),
    /// Values of one kind.
    List(Node<'a>),
    Text,
    /// One of these words.
    OneOf(Vec<&'a str>),
    Whole,
    Number,
    Boolean,
    /// A form that this reader does not know: left to serde.
    Other,
}

impl<'a> Node<'a> {
    pub(super) fn root(root: &'a Value) -> Self {
        Self { root, here: root, example: None }
    }

    fn at(self, here: &'a Value) -> Self {
        Self { root: self.root, here, example: None }
    }

    /// The value of a schema keyword, on this node or on what it refers to.
    fn keyword(self, name: &str) -> Option<&'a Value> {
        self.here.get(name).or_else(|| self.target()?.keyword(name))
    }

    fn target(self) -> Option<Self> {
        let pointer = self.here.get("$ref")?.as_str()?.strip_prefix('#')?;
        Some(self.at(self.root.pointer(pointer)?))
    }

    pub(super) fn kind(self) -> Kind<'a> {
        if let Some(words) = self.words() {
            return Kind::OneOf(words);
        }
        match self.keyword("type").and_then(Value::as_str) {
            Some("object") if self.keyword("properties").is_some() => Kind::Table,
            Some("object") => self
                .keyword("additionalProperties")
                .filter(|values| values.is_object())
                .map_or(Kind::Other, |values| {
                    let example = self.keyword("examples").and_then(|all| all.get(0)?.as_object());
                    let example = example.and_then(|example| example.values().next());
                    Kind::Map(Self { example, ..self.at(values) })
                }),
            Some("array") => {
                self.keyword("items").map_or(Kind::Other, |items| Kind::List(self.at(items)))
            }
            Some("string") => Kind::Text,
            Some("integer") => Kind::Whole,
            Some("number") => Kind::Number,
            Some("boolean") => Kind::Boolean,
            _ => Kind::Other,
        }
    }

    fn words(self) -> Option<Vec<&'a str>> {
        if let Some(Value::Array(words)) = self.keyword("enum") {
            return words.iter().map(Value::as_str).collect();
        }
        let Some(Value::Array(choices)) = self.keyword("oneOf") else { return None };
        choices.iter().map(|choice| choice.get("const")?.as_str()).collect()
    }

    /// The keys of a table, in the order of the raw type.
    pub(super) fn keys(self) -> impl Iterator<Item = (&'a str, Node<'a>)> {
        self.keyword("properties")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .map(move |(name, here)| (name.as_str(), self.at(here)))
    }

    pub(super) fn key(self, name: &str) -> Option<Node<'a>> {
        Some(self.at(self.keyword("properties")?.get(name)?))
    }

    /// The one kind of value in a map or list.
    pub(super) fn inner(self) -> Option<Node<'a>> {
        match self.kind() {
            Kind::Map(inner) | Kind::List(inner) => Some(inner),
            _ => None,
        }
    }

    pub(super) fn required(self) -> impl Iterator<Item = &'a str> {
        self.keyword("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
    }

    /// An example value, as TOML.
    pub(super) fn example(self) -> Option<String> {
        let example = self.example.or_else(|| self.keyword("examples")?.get(0))?;
        let example = toml::Value::try_from(example).ok()?;
        Some(example.to_string())
    }

    pub(super) fn minimum(self) -> Option<f64> {
        self.keyword("minimum").and_then(Value::as_f64)
    }

    pub(super) fn maximum(self) -> Option<f64> {
        self.keyword("maximum").and_then(Value::as_f64)
    }
}
