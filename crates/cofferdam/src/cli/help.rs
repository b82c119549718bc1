//! The longer texts of `--help`: examples, and what clap cannot know.

/// What the program is.
pub(crate) const ABOUT: &str = "\
Run code that an agent wrote where it can do no harm, and say how strongly it was held.

Code runs in a sandbox that sees one folder, the workspace, and what its profile grants beside it: no \
network, no other files, no other processes and no secrets unless the profile says so. An agent comes \
in by MCP (`stdio`, `serve`), a person by the command line (`run`, `call`); both take the same way and \
get the same answers.";

/// Examples for the short help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  cofferdam run -- python3 -c 'print(6*7)'
  cofferdam call python_coding_tool.execute '{\"code\": \"print(6*7)\"}'
  cofferdam stdio -w ~/project
  cofferdam serve -w ~/project

`cofferdam COMMAND --help` shows more of each.";

/// Examples and exit codes for the long help.
pub(crate) const EXAMPLES_AND_EXIT_CODES: &str = "\
Examples:
  Run a command on the current folder, held by the default profile:
    cofferdam run -- python3 -c 'print(6*7)'
  Call a tool as an agent would, and get what it would get:
    cofferdam call python_coding_tool.execute '{\"code\": \"print(6*7)\"}'
  Let an agent's client start the server by itself, on one folder:
    cofferdam stdio -w ~/project
  Serve agents on this machine at http://127.0.0.1:8050/mcp:
    cofferdam serve -w ~/project

Exit codes:
  all but run   0 done, 1 failed, 2 the command line is wrong, 128+N ended by signal N
  serve, stdio  also 3 the worker died too often, 4 the gateway died
  run           the command's own; 124 the deadline passed, 125 Cofferdam failed or refused,
                126 the command cannot be executed, 127 it was not found, 128+N signal N

Environment:
  COFFERDAM_CONFIG             the configuration file, when --config is not given
  COFFERDAM_<SECTION>__<KEY>   overrides one value of it, such as COFFERDAM_SERVER__PORT=8051
  COFFERDAM_RUNTIME_DIR        where running servers have their private folders and are found
                               [default: $XDG_RUNTIME_DIR/cofferdam, else /tmp/cofferdam-UID]
  RUST_LOG                     what is logged on standard error, such as debug or cofferdam_worker=trace";

/// `run`
pub(crate) const RUN: &str = "\
Examples:
  cofferdam run -- python3 train.py            streams in and out, exit code passed through
  cofferdam run -- bash                        an interactive shell, with a terminal of its own
  cofferdam run --timeout 30s -- make test     ended after 30 seconds, exit code 124
  cofferdam run -w ~/project -p offline-strict -- pytest
  echo 'print(6*7)' | cofferdam run -- python3 -
  cofferdam run --json -- uname -a             the result as an agent would get it

The command starts in the current directory when that lies in the workspace, else in the workspace. \
Without --timeout it may run as long as the profile's `limits.timeout_max`, and without end in a \
terminal. Ctrl-C ends it in order, a second Ctrl-C at once; in a terminal of its own Ctrl-C goes to the \
command.

It gets a terminal of its own when standard input is a terminal, this command is not in the background, \
and standard output is no pipe (a terminal is shared with whatever the pipe leads to).

Exit codes:
  the command's own, or
  124  the deadline passed
  125  Cofferdam itself failed, or refused to run it
  126  the command was found but cannot be executed
  127  the command was not found inside the sandbox
  128+N  the command, or cofferdam itself, was ended by signal N";

/// `call`
pub(crate) const CALL: &str = "\
Examples:
  cofferdam call python_coding_tool.execute '{\"code\": \"print(6*7)\"}'
  cofferdam call bash_coding_tool.execute @arguments.json
  jq -n --rawfile code job.py '{$code}' | cofferdam call python_coding_tool.execute -
  cofferdam call python_coding_tool.execute '{\"code\": \"print(1)\"}' | jq -r .stdout

The result is what an agent gets: one JSON object on standard output, on one line unless that is a \
terminal. A program that fails is a finished call: look at `returncode` and `verdict`. `cofferdam tools` \
lists the tools and their arguments.

A call that a person must agree to is asked about in a terminal; elsewhere it needs --approve.

Exit codes:
  0  the call finished
  1  the tool refused or failed: {\"error\": …, \"code\": …, \"hint\": …} on standard output
  2  the command line, or its JSON, is wrong
  128+N  ended by signal N";

/// `tools`
pub(crate) const TOOLS: &str = "\
Examples:
  cofferdam tools                                   what is served by this configuration
  cofferdam tools --json | jq '.[].name'
  cofferdam tools deactivate 'bash_coding_tool.*'   on a running server, until it ends
  cofferdam tools activate '*' --for 10m            on a running server, for ten minutes
  cofferdam tools rules                             what a running server decides by";

/// `tools activate`, `tools deactivate`
pub(crate) const TOOLS_SET: &str = "\
Examples:
  cofferdam tools deactivate 'bash_coding_tool.*'
  cofferdam tools activate 'python_coding_tool.execute' --for 10m

What is set last is asked first, before every rule of the configuration. It is kept when the worker is \
started again and forgotten when the server ends. Inactive tools are not listed, and a call of one is \
refused; clients are told that their list has changed.";

/// `status`
pub(crate) const STATUS: &str = "\
Examples:
  cofferdam status
  cofferdam status --json | jq .generation

Only servers of the same user are found.";

/// `approvals`
pub(crate) const APPROVALS: &str = "\
Examples:
  cofferdam approvals list
  cofferdam approvals show 4f3a
  cofferdam approvals allow 4f3a
  cofferdam approvals deny 4f3a
  cofferdam approvals list --json | jq -r '.[].id'

A call waits when its profile's `[approval]` wants a person to agree. It waits for at most \
`approval.wait`, and the first who decides, the owner here or the person behind the client, decides. \
What is allowed runs once, exactly as it is shown.";

/// `reload`
pub(crate) const RELOAD: &str = "\
Examples:
  cofferdam reload
  cofferdam reload --server 4242

The server does the same by itself within a few seconds after a file has changed, and on SIGHUP. Files \
that cannot be used change nothing: the last good ones stay in force. Calls under way keep what they \
began with. Address, port, workspace and the bounds of the queue are read only when a server starts.";

/// `stdio`
pub(crate) const STDIO: &str = "\
Examples:
  cofferdam stdio -w ~/project
  A client's configuration:
    {\"mcpServers\": {\"cofferdam\": {\"command\": \"cofferdam\", \"args\": [\"stdio\", \"-w\", \"/home/me/project\"]}}}

Standard input and output belong to MCP; logs go to standard error. It ends when the client closes \
standard input, or on SIGTERM: calls under way may finish until `server.drain`, a second signal ends \
them at once.

Exit codes:
  0  ended in order
  1  it could not start
  2  the command line is wrong
  3  the worker died more often in a row than `execution.worker_restart_limit` allows
  4  the gateway died
  128+N  ended at once by signal N";

/// `serve`
pub(crate) const SERVE: &str = "\
Examples:
  cofferdam serve -w ~/project                 http://127.0.0.1:8050/mcp
  cofferdam serve -w ~/project --mcp-port 0    a free port, named on standard error

When it is ready it says on standard error where it serves. SIGTERM and Ctrl-C: new calls are refused, \
calls under way may finish until `server.drain`, a second signal ends them at once. Only addresses of \
this machine can be served for now.

Exit codes:
  0  ended in order
  1  it could not start
  2  the command line is wrong
  3  the worker died more often in a row than `execution.worker_restart_limit` allows
  4  the gateway died
  128+N  ended at once by signal N";

/// `completions`
pub(crate) const COMPLETIONS: &str = "\
Examples:
  cofferdam completions bash > ~/.local/share/bash-completion/completions/cofferdam
  cofferdam completions zsh > ~/.zfunc/_cofferdam
  cofferdam completions fish > ~/.config/fish/completions/cofferdam.fish";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;

    /// Claims that a text has a line that begins with this code.
    #[track_caller]
    fn named(text: &str, exit: Exit) {
        let code = exit.code().to_string();
        let named = text.lines().any(|line| line.split_whitespace().next() == Some(&code));
        assert!(named, "{code} is not in:\n{text}");
    }

    #[test]
    fn every_exit_code_is_in_the_help_of_its_command() {
        for exit in [Exit::TimedOut, Exit::Refused, Exit::NotExecutable, Exit::NotFound] {
            named(RUN, exit);
        }
        for exit in [Exit::Success, Exit::Failed, Exit::Usage] {
            named(CALL, exit);
        }
        for text in [SERVE, STDIO] {
            for exit in
                [Exit::Success, Exit::Failed, Exit::Usage, Exit::WorkerLost, Exit::GatewayLost]
            {
                named(text, exit);
            }
        }
    }
}
