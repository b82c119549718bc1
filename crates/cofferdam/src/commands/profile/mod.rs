//! `cofferdam profile`: questions about sandbox profiles, for people and for programs.
//!
//! Only prints: what is decided, compared and explained is decided in the policy crate.

mod check;
mod diff;
mod explain;
mod list;
mod origin;
mod show;

use cofferdam_policy::profile::profile_schema;
use serde_json::Value;

use crate::{
    cli::{Form, ProfileArgs, ProfileCommand},
    config::Config,
    error::CommandError,
    exit::Exit,
    output,
};

pub(super) fn profile(arguments: ProfileArgs, config: &Config) -> Result<Exit, CommandError> {
    match arguments.command {
        ProfileCommand::List { form } => list::list(form, config),
        ProfileCommand::Show { name, form } => show::show(&name, form, config),
        ProfileCommand::Check { files, form } => check::check(&files, form, config),
        ProfileCommand::Diff { before, after, form } => diff::diff(&before, &after, form, config),
        ProfileCommand::Explain(arguments) => explain::explain(arguments, config),
        ProfileCommand::Schema => answer(Form { json: true }, profile_schema, String::new),
    }
}

/// Prints an answer in the form that was asked for.
fn answer(
    form: Form,
    json: impl FnOnce() -> Value,
    text: impl FnOnce() -> String,
) -> Result<Exit, CommandError> {
    let printed = if form.json { output::json(&json()) } else { output::result(&text()) };
    printed.map_err(CommandError::Output)?;
    Ok(Exit::Success)
}

/// Text of a file for a line of its own: what would drive a terminal is escaped.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            // Also what reorders or hides text.
            '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}' => plain.extend(character.escape_unicode()),
            character if character.is_control() => plain.extend(character.escape_default()),
            character => plain.push(character),
        }
    }
    plain
}

/// The messages of an error and of its causes, on one line.
fn in_one_line(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        line.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    plain(&line)
}
