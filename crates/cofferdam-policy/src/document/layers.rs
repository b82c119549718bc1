//! Picks each value from the layers that were written, first layer first, and keeps its origin.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use serde_json::Value;

use super::{
    DocumentError, Lines, Location, Origin,
    error::{Step, quoted_if_needed, spelled},
    schema::Node,
};

/// One layer of values, as written.
#[derive(Clone, Copy, Debug)]
pub struct Layer<'a, R> {
    /// The values.
    pub raw: &'a R,
    /// Where they were written.
    pub source: Source<'a>,
}

/// Where the values of a layer were written.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// The file itself.
    File(&'a Lines),
    /// The file that it extends.
    Extended {
        /// Name of that file.
        name: &'a str,
        /// Its lines.
        lines: &'a Lines,
    },
    /// An environment variable.
    Variable(&'a str),
    /// Nowhere.
    Default,
}

/// Layers of values of `R`, most important first.
///
/// A value is taken whole from the first layer that has it; maps are joined key by key.
#[derive(Debug)]
pub struct Layers<'a, R> {
    schema: &'a Value,
    layers: Vec<Layer<'a, R>>,
    origins: BTreeMap<String, Origin>,
}

/// A value with the place it came from.
#[derive(Clone, Debug)]
pub struct Picked<'a, T> {
    /// The value.
    pub value: T,
    /// Where it was written.
    pub place: Place<'a>,
}

/// A place in the layers: what an error about a value points at.
#[derive(Clone, Debug)]
pub struct Place<'a> {
    schema: &'a Value,
    path: Vec<Step>,
    source: Source<'a>,
}

impl<'a, R> Layers<'a, R> {
    /// Takes the layers, most important first, and the schema that describes them.
    pub fn new(schema: &'a Value, layers: Vec<Layer<'a, R>>) -> Self {
        Self { schema, layers, origins: BTreeMap::new() }
    }

    /// The value of `key`, a dotted path of the schema, or the default.
    pub fn pick<T: Clone>(
        &mut self,
        key: &str,
        get: impl Fn(&R) -> &Option<T>,
        default: T,
    ) -> Picked<'a, T> {
        self.pick_written(key, get).unwrap_or_else(|| self.default(key, default))
    }

    /// The value of `key`, if any layer has it.
    pub fn pick_written<T: Clone>(
        &mut self,
        key: &str,
        get: impl Fn(&R) -> &Option<T>,
    ) -> Option<Picked<'a, T>> {
        let (value, source) = self
            .layers
            .iter()
            .find_map(|layer| get(layer.raw).as_ref().map(|value| (value.clone(), layer.source)))?;
        Some(self.picked(key, value, source))
    }

    /// As [`pick`](Self::pick), for a list: the origin of each entry that is written is kept too, as
    /// `key[0]`.
    pub fn pick_list<T: Clone>(
        &mut self,
        key: &str,
        get: impl Fn(&R) -> &Option<Vec<T>>,
        default: Vec<T>,
    ) -> Picked<'a, Vec<T>> {
        let picked = self.pick(key, get, default);
        let written = picked.place.origin() != Origin::Default;
        for (index, (place, _)) in picked.entries().enumerate().filter(|_| written) {
            self.origins.insert(format!("{key}[{index}]"), place.origin());
        }
        picked
    }

    /// The entries of a map, the first layer's entries first and each in the order as written; a
    /// key of a later layer that an earlier one has too is left out.
    pub fn pick_entries<T: Clone>(
        &mut self,
        key: &str,
        get: impl Fn(&R) -> &Option<IndexMap<String, T>>,
    ) -> IndexMap<String, Picked<'a, T>> {
        let mut entries = IndexMap::new();
        for layer in &self.layers {
            for (name, value) in get(layer.raw).iter().flatten() {
                if entries.contains_key(name) {
                    continue;
                }
                let place = self.place(key, layer.source).key(name);
                self.origins.insert(spelled(&place.path), place.origin());
                entries.insert(name.clone(), Picked { value: value.clone(), place });
            }
        }
        entries
    }

    /// Notes that `key`, a path as it is spelled in TOML, has its built-in default.
    pub fn defaulted(&mut self, key: &str) {
        self.origins.insert(key.to_owned(), Origin::Default);
    }

    /// Where each value came from, by dotted key. Call it last.
    pub fn into_origins(self) -> BTreeMap<String, Origin> {
        self.origins
    }

    fn default<T>(&mut self, key: &str, value: T) -> Picked<'a, T> {
        self.picked(key, value, Source::Default)
    }

    fn picked<T>(&mut self, key: &str, value: T, source: Source<'a>) -> Picked<'a, T> {
        let place = self.place(key, source);
        self.origins.insert(key.to_owned(), place.origin());
        Picked { value, place }
    }

    fn place(&self, key: &str, source: Source<'a>) -> Place<'a> {
        let path = key.split('.').map(|step| Step::Key(step.to_owned())).collect();
        Place { schema: self.schema, path, source }
    }

    /// The error that no layer has `key`, which has no default.
    pub fn missing(&self, key: &str) -> DocumentError {
        let place = self.place(key, Source::Default);
        DocumentError::MissingKey {
            location: Location::without_origin(&place.path),
            hint: place.example(),
        }
    }
}

impl<'a, T> Picked<'a, T> {
    /// Turns the value into its resolved form; the reason of a refusal is put behind the key.
    ///
    /// # Errors
    /// [`DocumentError::Invalid`] with an example of the key as the hint.
    pub fn parse<U>(
        &self,
        parse: impl FnOnce(&T) -> Result<U, String>,
    ) -> Result<U, DocumentError> {
        parse(&self.value).map_err(|reason| self.place.invalid(reason))
    }
}

impl<'a, T> Picked<'a, Vec<T>> {
    /// Turns each entry into its resolved form; the reason of a refusal is put behind the entry.
    ///
    /// # Errors
    /// [`DocumentError::Invalid`] for the first entry that is refused.
    pub fn parse_each<U>(
        &self,
        mut parse: impl FnMut(&T) -> Result<U, String>,
    ) -> Result<Vec<U>, DocumentError> {
        self.entries()
            .map(|(place, value)| parse(value).map_err(|reason| place.invalid(reason)))
            .collect()
    }

    /// The entries, each with its own place.
    pub fn entries(&self) -> impl Iterator<Item = (Place<'a>, &T)> {
        self.value.iter().enumerate().map(|(index, value)| (self.place.entry(index), value))
    }
}

impl<'a> Place<'a> {
    /// The place of a key in this table.
    pub fn key(&self, name: &str) -> Self {
        self.step(Step::Key(name.to_owned()))
    }

    /// The place of an entry, counted from 0, in this list.
    pub fn entry(&self, index: usize) -> Self {
        self.step(Step::Entry(index))
    }

    fn step(&self, step: Step) -> Self {
        let mut place = self.clone();
        place.path.push(step);
        place
    }

    /// Where that is.
    pub fn origin(&self) -> Origin {
        match self.source {
            Source::File(lines) => Origin::Line { line: lines.of(&self.path) },
            Source::Extended { name, lines } => {
                Origin::Inherited { from: name.to_owned(), line: lines.of(&self.path) }
            }
            Source::Variable(name) => Origin::Variable { name: name.to_owned() },
            Source::Default => Origin::Default,
        }
    }

    /// The error that what stands here cannot be meant; the hint is an example of the key.
    pub fn invalid(&self, reason: impl Into<String>) -> DocumentError {
        self.refused(reason, self.example())
    }

    /// The same with a hint of its own.
    pub fn invalid_but(&self, reason: impl Into<String>, hint: impl Into<String>) -> DocumentError {
        self.refused(reason, Some(hint.into()))
    }

    fn refused(&self, reason: impl Into<String>, hint: Option<String>) -> DocumentError {
        let location = Location::new(&self.path, self.origin());
        DocumentError::Invalid { location, reason: reason.into(), hint }
    }

    /// An example of the nearest key around this place that has one.
    fn example(&self) -> Option<String> {
        let mut node = Node::root(self.schema);
        let mut example = None;
        for step in &self.path {
            node = match step {
                Step::Key(key) => node.key(key).or_else(|| node.inner())?,
                Step::Entry(_) => node.inner()?,
            };
            if let (Step::Key(key), Some(text)) = (step, node.example()) {
                example = Some(format!("for example `{} = {text}`", quoted_if_needed(key)));
            }
        }
        example
    }
}
