//! Asking the person behind a client whether a call may run, and the answer.
//!
//! A question is a [`WaitingApproval`], the same for the client's person and for the server's owner.
//! How it becomes a dialogue is the gateway's business; what the answer means is the worker's.

use serde::{Deserialize, Serialize};

use crate::admin::WaitingApproval;

/// How the person behind a client can be asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Elicitation {
    /// Not at all: the request did not say that its client can ask.
    #[default]
    None,
    /// While the call waits, by [`FromWorker::Ask`](crate::FromWorker::Ask).
    Push,
    /// By an answer to the call, [`ToolReply::NeedsApproval`](crate::ToolReply::NeedsApproval), after
    /// which the client makes the same call again with the answer.
    InputRequired,
}

/// What came back to a question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApprovalAnswer {
    /// Id of the question.
    pub id: String,
    /// What the person said; `None` when there is no answer: the client did not bring one, or could
    /// not ask after all.
    pub allow: Option<bool>,
}

impl WaitingApproval {
    /// The question for people, in several lines.
    ///
    /// Everything that the code could have chosen stands behind a `| ` of its own line, so that it
    /// cannot pass for one of the other lines.
    pub fn text(&self) -> String {
        format!(
            "May `{tool}` run this?\n\
             \n\
             Why asked: {reason}\n\
             Runs in: {backend}, held as {enforcement}\n\
             Network: {network}\n\
             Profile: {profile}, generation {generation}\n\
             Folder: {folder}\n\
             Arguments: sha256 {digest}\n\
             \n\
             {summary}",
            tool = self.tool,
            reason = self.reason,
            backend = self.backend,
            enforcement = self.enforcement,
            network = self.network,
            profile = self.profile,
            generation = self.generation,
            folder = self.working_directory,
            digest = self.digest,
            summary = self.summary,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_says_what_would_run_where_and_why() {
        let question = WaitingApproval {
            id: "4f".to_owned(),
            tool: "bash_coding_tool.execute".to_owned(),
            session: "stdio".to_owned(),
            reason: "every call is asked about (rule `*` of profile `ask`)".to_owned(),
            summary: "Code, 1 line:\n| rm -r build".to_owned(),
            working_directory: "/home/me/project".to_owned(),
            profile: "ask".to_owned(),
            generation: 2,
            backend: "bubblewrap".to_owned(),
            enforcement: "files full, network full".to_owned(),
            network: "none".to_owned(),
            digest: "ab12".to_owned(),
            waiting_s: 3,
            expires_in_s: 297,
        };
        assert_eq!(
            question.text(),
            "May `bash_coding_tool.execute` run this?\n\n\
             Why asked: every call is asked about (rule `*` of profile `ask`)\n\
             Runs in: bubblewrap, held as files full, network full\n\
             Network: none\n\
             Profile: ask, generation 2\n\
             Folder: /home/me/project\n\
             Arguments: sha256 ab12\n\n\
             Code, 1 line:\n| rm -r build"
        );
        assert!(!question.text().contains(&question.id), "its id is not for the client");
    }
}
