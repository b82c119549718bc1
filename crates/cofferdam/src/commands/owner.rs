//! `cofferdam status`, `reload`, `tools activate` and the like: what its owner says to a running
//! server.

use std::io;

use cofferdam_protocol::{
    ErrorCode, Failure,
    admin::{AdminReply, AdminRequest, ServerStatus, ToolRule},
};
use serde_json::json;

use crate::{
    cli::{RunningServerArgs, ToolsAction},
    error::CommandError,
    exit::Exit,
    output, owner,
    server_folder::RunningServer,
};

pub(super) fn tools(action: ToolsAction) -> Result<Exit, CommandError> {
    let as_json = matches!(action, ToolsAction::Rules { json: true, .. });
    let (server, request) = action.resolve();
    match ask(server, &request)?.1 {
        AdminReply::ToolRules { rules } if as_json => {
            let rules = serde_json::to_value(rules).map_err(io::Error::other);
            printed(rules.and_then(|rules| output::json(&rules)))
        }
        AdminReply::ToolRules { rules } => printed(output::result(&table(&rules))),
        reply => done(reply),
    }
}

pub(super) fn status(server: RunningServerArgs, as_json: bool) -> Result<Exit, CommandError> {
    let (server, reply) = ask(server, &AdminRequest::Status)?;
    let AdminReply::Status(status) = reply else { return done(reply) };
    printed(if as_json {
        let mut object = json!({ "server": server.pid });
        serde_json::to_value(&status).map_err(io::Error::other).and_then(|status| {
            if let (Some(all), Some(more)) = (object.as_object_mut(), status.as_object()) {
                all.extend(more.clone());
            }
            output::json(&object)
        })
    } else {
        output::result(&summary(&server, &status))
    })
}

pub(super) fn reload(server: RunningServerArgs) -> Result<Exit, CommandError> {
    done(ask(server, &AdminRequest::Reload)?.1)
}

/// Asks the server that is meant; what it could not do is an error here.
pub(super) fn ask(
    server: RunningServerArgs,
    request: &AdminRequest,
) -> Result<(RunningServer, AdminReply), CommandError> {
    match owner::ask(server.server, request)? {
        (_, AdminReply::Failed(failure)) => Err(CommandError::Refused(failure)),
        answered => Ok(answered),
    }
}

/// Prints that it is done.
pub(super) fn done(reply: AdminReply) -> Result<Exit, CommandError> {
    match reply {
        AdminReply::Done { message } => printed(output::result(&format!("{message}\n"))),
        _ => Err(CommandError::Refused(Failure::new(
            ErrorCode::Internal,
            "the server's answer does not fit the question",
        ))),
    }
}

pub(super) fn printed(result: io::Result<()>) -> Result<Exit, CommandError> {
    result.map(|()| Exit::Success).map_err(CommandError::Output)
}

fn summary(server: &RunningServer, status: &ServerStatus) -> String {
    let ServerStatus { pid, workspace, generation, reload_error, running, queued } = status;
    let mut text = format!(
        "server {} (worker {pid})\n\
         workspace   {workspace}\n\
         generation  {generation}\n\
         calls       {running} running, {queued} waiting\n",
        server.pid
    );
    if let Some(error) = reload_error {
        text.push_str(&format!("the newest files are not in force: {error}\n"));
    }
    text
}

fn table(rules: &[ToolRule]) -> String {
    let width = rules.iter().map(|rule| rule.pattern.chars().count()).max().unwrap_or_default();
    let mut table = String::new();
    for rule in rules {
        let mode = if rule.active { "activate" } else { "deactivate" };
        table.push_str(&format!("{mode:10}  {:width$}  {}", rule.pattern, rule.origin));
        if let Some(seconds) = rule.expires_in_s {
            table.push_str(&format!(", {seconds} s left"));
        }
        table.push('\n');
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_says_what_is_not_in_force() {
        let server = RunningServer { pid: 42, folder: "/run/42".into() };
        let status = ServerStatus {
            pid: 43,
            workspace: "/home/me/project".to_owned(),
            generation: 3,
            reload_error: Some("unknown key `x`".to_owned()),
            running: 2,
            queued: 0,
        };
        insta::assert_snapshot!(summary(&server, &status), @"
        server 42 (worker 43)
        workspace   /home/me/project
        generation  3
        calls       2 running, 0 waiting
        the newest files are not in force: unknown key `x`
        ");
    }

    #[test]
    fn rules_are_shown_in_the_order_in_which_they_are_asked() {
        let rule = |pattern: &str, active, origin: &str, expires_in_s| ToolRule {
            pattern: pattern.to_owned(),
            active,
            origin: origin.to_owned(),
            expires_in_s,
        };
        let rules = [
            rule("bash_*", true, "run time", Some(90)),
            rule("bash_coding_tool.*", false, "cofferdam.toml:7", None),
            rule("*", true, "tools.default_mode", None),
        ];
        insta::assert_snapshot!(table(&rules), @"
        activate    bash_*              run time, 90 s left
        deactivate  bash_coding_tool.*  cofferdam.toml:7
        activate    *                   tools.default_mode
        ");
    }
}
