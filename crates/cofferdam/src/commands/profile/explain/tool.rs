//! Whether a tool is served, and whether a person must agree to a run of it.

use cofferdam_policy::{
    ApprovalReason, BackendKind, Dimension, RunTimeRules, ToolRule,
    explain::{self, ToolExplanation},
    profile::ApprovalWhen,
    tool_rules::DecidedBy,
};
use cofferdam_protocol::tool::catalogue;
use serde_json::{Value, json};

use super::{super::plain, Subject};

/// The name under which the command line runs.
const COMMAND_LINE: &str = "run";

/// What was found about a tool.
pub(super) struct Tool {
    name: String,
    /// Whether it is served; `None` for the command line, which no rule of `[tools]` is about.
    served: Option<(bool, Option<ToolRule>)>,
    explained: ToolExplanation,
}

pub(super) fn explain(name: &str, subject: &Subject<'_>) -> Tool {
    let served = (name != COMMAND_LINE).then(|| {
        let nothing = RunTimeRules::default();
        let (active, by) = subject.config.tools.decide(&nothing, name, 0);
        let rule = match by {
            DecidedBy::Rule(rule) => Some(rule.clone()),
            DecidedBy::RunTime(_) | DecidedBy::Default => None,
        };
        (active, rule)
    });
    let explained = explain::tool(name, &subject.loaded.profile, &subject.workspace);
    Tool { name: name.to_owned(), served, explained }
}

impl Tool {
    /// Whether it is served, and else whether the backend that is wanted most asks.
    fn verdict(&self) -> &'static str {
        let first = self.explained.backends.first();
        match (&self.served, first) {
            (Some((false, _)), _) => "not_served",
            (_, Some((_, Some(_)))) => "asks",
            _ => "runs",
        }
    }

    pub(super) fn text(&self, subject: &Subject<'_>) -> String {
        let name = plain(&self.name);
        let verdict = match self.verdict() {
            "not_served" => "is not served",
            "asks" => "runs when a person has agreed",
            _ => "runs without asking anybody",
        };
        let mut text = format!("`{name}` {verdict}.\n");
        text.push_str(&self.served_line(subject));
        text.push_str(&self.approval_line(subject));
        text.push_str(&self.backend_lines(subject));
        if self.name != COMMAND_LINE && !catalogue().iter().any(|tool| tool.name == self.name) {
            let names: Vec<_> = catalogue().iter().map(|tool| tool.name).collect();
            let near = cofferdam_policy::document::nearest(&self.name, names);
            let near = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
            text.push_str(&format!("note: there is no tool of that name{near}\n"));
        }
        if self.served.is_some() {
            text.extend(subject.not_enforced(&["tools.rule", "tools.default_mode"]));
        }
        text
    }

    fn served_line(&self, subject: &Subject<'_>) -> String {
        let mode = |active: &bool| if *active { "activate" } else { "deactivate" };
        match &self.served {
            None => {
                "  served     always: no rule of `[tools]` is about the command line\n".to_owned()
            }
            Some((active, Some(rule))) => format!(
                "  served     `{}` = {} ({})\n",
                plain(rule.pattern.as_str()),
                mode(active),
                plain(&rule.origin),
            ),
            Some((active, None)) => {
                let origin = subject.config.origin_text("tools.default_mode").unwrap_or_default();
                let mode = mode(active);
                format!(
                    "  served     `tools.default_mode` = {mode} ({origin}): no rule of `[tools]` is \
                     about it\n"
                )
            }
        }
    }

    fn approval_line(&self, subject: &Subject<'_>) -> String {
        let rules = &subject.loaded.profile.approval;
        let Some(rule) = self.explained.rule.and_then(|index| rules.get(index)) else {
            return "  approval   no rule of `[approval]` is about it\n".to_owned();
        };
        let asks = match rule.when {
            ApprovalWhen::Never => "never asks",
            ApprovalWhen::Unsandboxed => "asks before a run that nothing would confine",
            ApprovalWhen::Outside => {
                "asks before a run outside the allowed folders, with every host in reach, or that \
                 nothing would confine"
            }
            ApprovalWhen::Always => "asks before every run",
        };
        let origin = subject.origins.behind(&approval_key(rule.tool.as_str()));
        let (tool, when) = (plain(rule.tool.as_str()), rule.when.as_str());
        format!("  approval   `{tool}` = {when}{origin}: {asks}\n")
    }

    fn backend_lines(&self, subject: &Subject<'_>) -> String {
        let profile = &subject.loaded.profile;
        let backends = &self.explained.backends;
        let names: Vec<_> = backends.iter().map(|(kind, _)| kind.as_str()).collect();
        let origin = subject.origins.behind("backends");
        let mut text = format!("  backends   {}{origin}, the first that works\n", names.join(", "));
        for (kind, reason) in backends {
            if let Some(reason) = reason {
                let reason = why(reason, *kind);
                text.push_str(&format!("             {}: asks, {reason}\n", kind.as_str()));
            }
        }
        let required: Vec<_> = Dimension::ALL
            .into_iter()
            .map(|one| format!("{} {}", one.as_str(), profile.require.get(one).as_str()))
            .collect();
        text.push_str(&format!("  require    {}\n", required.join(", ")));
        text
    }

    pub(super) fn value(&self, subject: &Subject<'_>) -> Value {
        let served = self.served.as_ref().map(|(active, rule)| {
            let rule = rule.as_ref();
            let rule =
                rule.map(|one| json!({ "pattern": one.pattern.as_str(), "origin": one.origin }));
            json!({ "active": active, "rule": rule })
        });
        let rules = &subject.loaded.profile.approval;
        let rule = self.explained.rule.and_then(|index| rules.get(index)).map(|rule| {
            let origin = subject.origins.value(&approval_key(rule.tool.as_str()));
            json!({ "pattern": rule.tool.as_str(), "when": rule.when.as_str(), "origin": origin })
        });
        let backends = self.explained.backends.iter().map(|(kind, reason)| {
            let reason = reason.as_ref().map(|reason| why(reason, *kind));
            json!({ "backend": kind.as_str(), "asks": reason })
        });
        json!({
            "name": self.name,
            "verdict": self.verdict(),
            "served": served,
            "approval": rule,
            "backends": backends.collect::<Vec<_>>(),
            "require": subject.loaded.profile.require,
        })
    }
}

/// Why a person must agree, for people.
fn why(reason: &ApprovalReason, kind: BackendKind) -> String {
    match reason {
        ApprovalReason::Always => "since the rule says so every time".to_owned(),
        ApprovalReason::Unsandboxed => {
            format!("since nothing confines a run on {} here", kind.as_str())
        }
        ApprovalReason::OutsidePath(path) => {
            format!("since it would work in `{}`", super::shown(path))
        }
        ApprovalReason::EveryHost => "since it could reach every host".to_owned(),
        // Reasons are added with what is asked about.
        _ => "since the rule says so".to_owned(),
    }
}

/// Key of an approval rule, as origins spell it.
fn approval_key(tool: &str) -> String {
    cofferdam_policy::document::Entry::new("approval", tool, "").key()
}
