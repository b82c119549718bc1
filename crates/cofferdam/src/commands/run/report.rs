//! One line that says how strongly a run was held.

use cofferdam_backend::Outcome;
use cofferdam_policy::Dimension;

/// The line, from what was armed and proven in that run.
pub(super) fn line(outcome: &Outcome, profile: &str) -> String {
    let held: Vec<String> = Dimension::ALL
        .into_iter()
        .map(|dimension| {
            let strength = outcome.report.enforcement.get(dimension);
            format!("{} {}", dimension.as_str(), strength.as_str())
        })
        .collect();
    let mut line = format!("{}, profile {profile}: {}", outcome.backend.as_str(), held.join(", "));
    if !outcome.report.not_armed.is_empty() {
        line.push_str(&format!("; not armed: {}", outcome.report.not_armed.join(", ")));
    }
    line
}
