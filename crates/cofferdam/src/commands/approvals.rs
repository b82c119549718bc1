//! `cofferdam approvals`: the owner looks at the calls that wait for a person, and decides.

use std::io;

use cofferdam_protocol::{
    ErrorCode, Failure,
    admin::{AdminReply, AdminRequest, WaitingApproval},
};
use serde_json::{Value, json};

use super::owner::{ask, done, printed};
use crate::{
    cli::{ApprovalsAction, ApprovalsArgs, RunningServerArgs},
    error::CommandError,
    exit::Exit,
    output,
};

/// The least of an id that is taken for one.
const SHORTEST_ID: usize = 4;

pub(super) fn approvals(arguments: ApprovalsArgs) -> Result<Exit, CommandError> {
    let ApprovalsArgs { action, json: as_json, server } = arguments;
    match action {
        ApprovalsAction::List => {
            let waiting = waiting(server)?;
            printed(if as_json { json(&waiting) } else { output::result(&list(&waiting)) })
        }
        ApprovalsAction::Show { id } => {
            let waiting = waiting(server)?;
            let call = find(&waiting, &id)?;
            printed(if as_json { json(call) } else { output::result(&details(call)) })
        }
        ApprovalsAction::Allow { id } => decide(server, &id, true, as_json),
        ApprovalsAction::Deny { id } => decide(server, &id, false, as_json),
    }
}

fn decide(
    server: RunningServerArgs,
    id: &str,
    allow: bool,
    as_json: bool,
) -> Result<Exit, CommandError> {
    let id = find(&waiting(server)?, id)?.id.clone();
    let (_, reply) = ask(server, &AdminRequest::DecideApproval { id: id.clone(), allow })?;
    match reply {
        AdminReply::Done { message } if as_json => {
            printed(output::json(&json!({ "id": id, "allowed": allow, "message": message })))
        }
        reply => done(reply),
    }
}

fn waiting(server: RunningServerArgs) -> Result<Vec<WaitingApproval>, CommandError> {
    match ask(server, &AdminRequest::ListApprovals)?.1 {
        AdminReply::Approvals { waiting } => Ok(waiting),
        reply => done(reply).map(|_| Vec::new()),
    }
}

/// The call that is meant by the beginning of its id.
fn find<'a>(waiting: &'a [WaitingApproval], id: &str) -> Result<&'a WaitingApproval, CommandError> {
    let refuse = |message: String| {
        let failure = Failure::new(ErrorCode::InvalidArguments, message)
            .with_hint("`cofferdam approvals list` shows the calls that wait, with their ids");
        Err(CommandError::Refused(failure))
    };
    if id.len() < SHORTEST_ID {
        return refuse(format!("an id has at least {SHORTEST_ID} digits"));
    }
    let mut found = waiting.iter().filter(|call| call.id.starts_with(id));
    match (found.next(), found.next()) {
        (Some(call), None) => Ok(call),
        (Some(_), Some(_)) => refuse(format!("several calls that wait begin with `{id}`")),
        (None, _) => refuse(format!(
            "no call that waits has the id `{id}`: it may have been decided, taken back or expired"
        )),
    }
}

fn json<T: serde::Serialize + ?Sized>(value: &T) -> io::Result<()> {
    let value: Value = serde_json::to_value(value).map_err(io::Error::other)?;
    output::json(&value)
}

fn list(waiting: &[WaitingApproval]) -> String {
    if waiting.is_empty() {
        return "no call waits for a person\n".to_owned();
    }
    let mut text = String::new();
    for call in waiting {
        text.push_str(&format!(
            "{}  {}  session {}, waits {} s, {} s left\n  {}\n",
            call.id, call.tool, call.session, call.waiting_s, call.expires_in_s, call.reason
        ));
    }
    text.push_str("\n`cofferdam approvals show ID` shows what would run.\n");
    text
}

fn details(call: &WaitingApproval) -> String {
    format!(
        "{}\n\nId: {}\nSession: {}\nWaiting: {} s, refused in {} s\n",
        call.text(),
        call.id,
        call.session,
        call.waiting_s,
        call.expires_in_s
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(id: &str) -> WaitingApproval {
        WaitingApproval {
            id: id.to_owned(),
            tool: "bash_coding_tool.execute".to_owned(),
            session: "stdio".to_owned(),
            reason: "every call is asked about (rule `*` of profile `ask`)".to_owned(),
            summary: "Code, 1 line, 4 bytes:\n| true".to_owned(),
            working_directory: "/w".to_owned(),
            profile: "ask".to_owned(),
            generation: 1,
            backend: "bubblewrap".to_owned(),
            enforcement: "files full".to_owned(),
            network: "none".to_owned(),
            digest: "d1".to_owned(),
            waiting_s: 3,
            expires_in_s: 297,
        }
    }

    fn refusal(result: Result<&WaitingApproval, CommandError>) -> String {
        match result {
            Err(CommandError::Refused(failure)) => failure.message,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_call_is_found_by_as_much_of_its_id_as_is_unique() {
        let all = [call("4f3aaaaa"), call("4f3abbbb"), call("99990000")];
        assert_eq!(find(&all, "9999").map(|call| call.id.as_str()).ok(), Some("99990000"));
        assert_eq!(find(&all, "4f3aa").map(|call| call.id.as_str()).ok(), Some("4f3aaaaa"));
        insta::assert_snapshot!(refusal(find(&all, "4f3a")), @"several calls that wait begin with `4f3a`");
        insta::assert_snapshot!(refusal(find(&all, "999")), @"an id has at least 4 digits");
        insta::assert_snapshot!(refusal(find(&all, "9998")), @"no call that waits has the id `9998`: it may have been decided, taken back or expired");
    }

    #[test]
    fn the_list_says_who_waits_for_how_long_and_why() {
        insta::assert_snapshot!(list(&[call("4f3a")]), @"
        4f3a  bash_coding_tool.execute  session stdio, waits 3 s, 297 s left
          every call is asked about (rule `*` of profile `ask`)

        `cofferdam approvals show ID` shows what would run.
        ");
        assert_eq!(list(&[]), "no call waits for a person\n");
    }

    #[test]
    fn the_details_are_the_question_as_it_is_asked() {
        let shown = details(&call("4f3a"));
        assert!(shown.starts_with(&call("4f3a").text()), "{shown}");
        assert!(shown.ends_with("\nId: 4f3a\nSession: stdio\nWaiting: 3 s, refused in 297 s\n"));
    }
}
