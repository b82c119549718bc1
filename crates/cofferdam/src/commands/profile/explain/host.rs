//! Whether a run may reach a host.

use cofferdam_policy::{
    Dimension,
    explain::{self, HostExplanation},
    hosts::HostPort,
};
use serde_json::{Value, json};

use super::{super::plain, Subject};

/// What was found about a host.
pub(super) struct ExplainedHost {
    name: String,
    is_private: bool,
    explained: HostExplanation,
}

pub(super) fn explain(host: &HostPort, subject: &Subject<'_>) -> ExplainedHost {
    let explained = explain::host(host, &subject.loaded.profile);
    let name = format!("{}:{}", host.host, host.port);
    ExplainedHost { name, is_private: host.is_private(), explained }
}

impl ExplainedHost {
    fn verdict(&self) -> &'static str {
        match self.explained {
            HostExplanation::EveryHost
            | HostExplanation::Unconfined
            | HostExplanation::Listed { .. } => "allowed",
            HostExplanation::PerhapsInGroup { .. } => "depends",
            HostExplanation::NoNetwork
            | HostExplanation::Private { .. }
            | HostExplanation::NotListed => "denied",
        }
    }

    /// The key of the rule that decides.
    fn key(&self) -> String {
        match self.explained {
            HostExplanation::NoNetwork | HostExplanation::EveryHost => "network.mode".to_owned(),
            HostExplanation::Unconfined => "host.confinement".to_owned(),
            HostExplanation::Listed { index } | HostExplanation::PerhapsInGroup { index } => {
                format!("network.allow[{index}]")
            }
            HostExplanation::Private { .. } => "network.deny_private".to_owned(),
            HostExplanation::NotListed => "network.allow".to_owned(),
        }
    }

    fn entry<'a>(&self, subject: &'a Subject<'_>) -> Option<&'a str> {
        let index = match self.explained {
            HostExplanation::Listed { index } | HostExplanation::PerhapsInGroup { index } => index,
            HostExplanation::Private { index } => index?,
            HostExplanation::NoNetwork
            | HostExplanation::EveryHost
            | HostExplanation::Unconfined
            | HostExplanation::NotListed => return None,
        };
        subject.loaded.profile.network.allow.get(index).map(String::as_str)
    }

    pub(super) fn text(&self, subject: &Subject<'_>) -> String {
        let name = &self.name;
        let verdict = match self.verdict() {
            "allowed" => "can be reached by a run",
            "denied" => "cannot be reached by a run",
            _ => "can be reached by a run only as one of a group",
        };
        let mut text = format!("`{name}` {verdict}.\n");
        let origin = subject.origins.behind(&self.key());
        let mode = subject.origins.behind("network.mode");
        let entry = plain(self.entry(subject).unwrap_or_default());
        let private = subject.loaded.profile.network.deny_private;
        let because = match self.explained {
            HostExplanation::NoNetwork => {
                format!("`network.mode` = none{origin}: there is no route to anywhere")
            }
            HostExplanation::EveryHost => {
                format!("`network.mode` = full{origin}: the network of this machine")
            }
            HostExplanation::Unconfined => {
                format!("`host.confinement` = none{origin}: nothing confines a run")
            }
            HostExplanation::Listed { .. } if private => format!(
                "`network.allow` `{entry}`{origin}, unless the name leads to a private address"
            ),
            HostExplanation::Listed { .. } => format!("`network.allow` `{entry}`{origin}"),
            HostExplanation::PerhapsInGroup { .. } => format!(
                "`network.allow` `{entry}`{origin}: which hosts that is shows when a run starts, and \
                 nothing else in the list is about this one"
            ),
            HostExplanation::Private { .. } => {
                format!("`network.deny_private`{origin}: it is a private address")
            }
            HostExplanation::NotListed => format!(
                "`network.mode` = allowlist{mode}, and nothing in `network.allow`{origin} is about it"
            ),
        };
        text.push_str(&format!("  decided    {because}\n"));
        text.push_str(&subject.how_it_is_held(Dimension::Network));
        // Whoever lists a private address has not granted it yet.
        if !(private && self.is_private) {
            let add = format!("\"{name}\" to `network.allow`");
            match self.explained {
                HostExplanation::NoNetwork => {
                    let add = format!("`mode = \"allowlist\"` to `[network]` and {add}");
                    text.push_str(&subject.how_to_add(&add));
                }
                HostExplanation::NotListed | HostExplanation::PerhapsInGroup { .. } => {
                    text.push_str(&subject.how_to_add(&add));
                }
                HostExplanation::EveryHost
                | HostExplanation::Unconfined
                | HostExplanation::Listed { .. }
                | HostExplanation::Private { .. } => {}
            }
        }
        text
    }

    pub(super) fn value(&self, subject: &Subject<'_>) -> Value {
        let key = self.key();
        json!({
            "host": self.name,
            "verdict": self.verdict(),
            "rule": key,
            "entry": self.entry(subject),
            "origin": subject.origins.value(&key),
            "deny_private": subject.loaded.profile.network.deny_private,
        })
    }
}
