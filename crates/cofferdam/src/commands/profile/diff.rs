//! `cofferdam profile diff`: by what two profiles differ, and which of them allows more.

use cofferdam_policy::{
    compare::{Change, Difference, compare},
    document::inline,
};
use serde_json::{Value, json};

use super::{answer, plain};
use crate::{cli::Form, config::Config, error::CommandError, exit::Exit};

pub(super) fn diff(
    before: &str,
    after: &str,
    form: Form,
    config: &Config,
) -> Result<Exit, CommandError> {
    let known = config.known_profiles(Vec::new());
    let (one, other) = (known.loaded(before)?, known.loaded(after)?);
    let differences = compare(&one.profile, &other.profile);
    let json = || {
        let all: Vec<_> = differences.iter().map(value).collect();
        json!({ "before": before, "after": after, "differences": all })
    };
    answer(form, json, || text(before, after, &differences))
}

fn text(before: &str, after: &str, differences: &[Difference]) -> String {
    if differences.is_empty() {
        return format!("`{after}` says the same as `{before}`.\n");
    }
    let width = differences.iter().map(|one| plain(&one.key).chars().count()).max();
    let width = width.unwrap_or_default();
    let mut text = String::new();
    for difference in differences {
        let (key, change) = (plain(&difference.key), difference.change.as_str());
        match difference.entries() {
            Some((added, removed)) if !(added.is_empty() && removed.is_empty()) => {
                text.push_str(&format!("{key:width$}  {change}\n"));
                for (sign, entries) in [('+', added), ('-', removed)] {
                    for entry in entries {
                        text.push_str(&format!(
                            "{:width$}    {sign} {}\n",
                            "",
                            plain(&inline(entry))
                        ));
                    }
                }
            }
            _ => {
                let (before, after) = sides(difference);
                text.push_str(&format!("{key:width$}  {change}: {before} → {after}\n"));
            }
        }
    }
    text + "\n" + &summary(before, after, differences)
}

fn summary(before: &str, after: &str, differences: &[Difference]) -> String {
    let count =
        |changes: &[Change]| differences.iter().filter(|one| changes.contains(&one.change)).count();
    let wider = count(&[Change::Wider, Change::Both]);
    let tighter = count(&[Change::Tighter, Change::Both]);
    let mut summary = match (wider, tighter) {
        (0, 0) => format!("`{after}` is neither wider nor tighter than `{before}`"),
        (wider, 0) => format!("`{after}` is wider than `{before}` in {wider}"),
        (0, tighter) => format!("`{after}` is tighter than `{before}` in {tighter}"),
        (wider, tighter) => {
            format!("`{after}` is wider than `{before}` in {wider} and tighter in {tighter}")
        }
    };
    let unclear = count(&[Change::Unclear]);
    if unclear > 0 {
        summary.push_str(&format!("; {unclear} cannot be ordered"));
    }
    summary + ".\n"
}

/// The values before and after, each on one line.
pub(super) fn sides(difference: &Difference) -> (String, String) {
    let side = |value: &Option<Value>| match value {
        None => "nothing".to_owned(),
        Some(Value::Array(list)) if list.is_empty() => "[]".to_owned(),
        // A list that long is told by what was added and removed, or not at all.
        Some(Value::Array(list)) if list.len() > 3 => format!("{} entries", list.len()),
        Some(value) => plain(&inline(value)),
    };
    (side(&difference.before), side(&difference.after))
}

/// As JSON.
pub(super) fn value(difference: &Difference) -> Value {
    let (added, removed) = difference.entries().unzip();
    json!({
        "key": difference.key,
        "change": difference.change.as_str(),
        "before": difference.before,
        "after": difference.after,
        "added": added,
        "removed": removed,
    })
}
