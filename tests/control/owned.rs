//! A server, its clients, and its owner: by the command line and by the socket itself.

use std::{
    fs,
    io::{Read, Write},
    os::unix::net::UnixStream,
    path::PathBuf,
    process::{Command, Stdio},
    time::Instant,
};

use serde_json::{Value, json};

use crate::{
    client::{Client, Era},
    support::{Finish, Finished, PATIENCE, World, between_looks, server::Server},
};

pub(crate) const PYTHON: &str = "python_coding_tool.execute";
pub(crate) const BASH: &str = "bash_coding_tool.execute";
pub(crate) const ATTRIBUTE: &str = "executor.get_attribute_payload";

/// How clients reach a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Stdio,
    Http,
}

/// The four ways in.
pub(crate) const WAYS: [(Transport, Era); 4] = [
    (Transport::Stdio, Era::Legacy),
    (Transport::Stdio, Era::Modern),
    (Transport::Http, Era::Legacy),
    (Transport::Http, Era::Modern),
];

/// A world with a configuration of its own, in which servers and their owner find each other and
/// nobody else.
pub(crate) struct Place {
    pub(crate) world: World,
}

/// A server that runs.
pub(crate) struct Running {
    pub(crate) server: Server,
    pub(crate) worker: crate::support::processes::Watched,
    /// Where it serves HTTP.
    pub(crate) url: String,
    folder: PathBuf,
}

impl Place {
    /// With that configuration.
    pub(crate) fn new(configuration: &str) -> Self {
        let place = Self { world: World::new() };
        fs::create_dir_all(place.path("admin/sandbox-profiles")).expect("a folder can be made");
        place.write("cofferdam.toml", configuration);
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.world.outside(name)
    }

    /// A file of the admin's.
    pub(crate) fn admin(&self, name: &str) -> PathBuf {
        self.path("admin").join(name)
    }

    /// Writes a file of the admin's.
    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.admin(name), text).expect("a file can be written");
    }

    /// Any command of the program.
    pub(crate) fn cofferdam(&self) -> Command {
        let mut command = self.world.cofferdam();
        command.env("COFFERDAM_RUNTIME_DIR", self.world.runtime());
        command
    }

    /// A command of the owner's to its end.
    #[track_caller]
    pub(crate) fn owner(&self, arguments: &[&str]) -> Finished {
        self.cofferdam().args(arguments).finish()
    }

    /// The same, which succeeds; its standard output.
    #[track_caller]
    pub(crate) fn done(&self, arguments: &[&str]) -> String {
        self.owner(arguments).expect_code(0).stdout
    }

    fn command(&self, subcommand: &[&str]) -> Command {
        let mut command = self.cofferdam();
        command.args(subcommand).arg("--config").arg(self.admin("cofferdam.toml"));
        command.stdin(Stdio::null());
        command
    }

    /// `cofferdam serve` with further options.
    pub(crate) fn serve(&self, options: &[&str]) -> Running {
        let mut command = self.command(&["serve", "--mcp-port", "0"]);
        command.args(options);
        Running::new(self, Server::start(command))
    }

    /// A server, and a client that reaches it that way.
    pub(crate) fn start(&self, (transport, era): (Transport, Era)) -> (Running, Client) {
        match transport {
            Transport::Http => {
                let running = self.serve(&[]);
                let client = Client::at_url(era, &running.url);
                (running, client)
            }
            Transport::Stdio => {
                let mut command = self.command(&["stdio"]);
                command.stdin(Stdio::piped()).stdout(Stdio::piped());
                let (server, to, from) = Server::start_piped(command);
                let running = Running::new(self, server);
                (running, Client::at_pipes(era, to, from))
            }
        }
    }

    /// Waits until the only server says so.
    #[track_caller]
    pub(crate) fn wait_for_status(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let begun = Instant::now();
        loop {
            let status = self.owner(&["status", "--json"]).expect_code(0).json();
            if wanted(&status) {
                return status;
            }
            assert!(begun.elapsed() < PATIENCE, "{what}: {status}");
            between_looks();
        }
    }
}

impl Running {
    fn new(place: &Place, mut server: Server) -> Self {
        let ready = server.ready();
        let folder = place.world.runtime().join(server.supervisor.pid().to_string());
        Self { server, worker: ready.worker, url: ready.address, folder }
    }

    pub(crate) fn pid(&self) -> String {
        self.server.supervisor.pid().to_string()
    }

    /// Kills the worker and waits for the next one.
    pub(crate) fn kill_worker(&mut self) {
        self.worker.signal(rustix::process::Signal::KILL);
        self.worker = self.server.next_worker(&self.worker);
        self.server.expect_line("well again");
    }

    /// A connection to its admin socket.
    pub(crate) fn owner(&self) -> Owner {
        let stream = UnixStream::connect(self.folder.join("admin.sock")).expect("it listens");
        let mut owner = Owner { stream };
        let hello = owner.exchange(&json!({ "type": "hello", "version": 1 }));
        assert_eq!(hello["type"], "hello", "{hello}");
        owner
    }
}

/// The owner, speaking to the socket without the command line between.
pub(crate) struct Owner {
    stream: UnixStream,
}

impl Owner {
    /// Switches tools on or off.
    pub(crate) fn set(&mut self, pattern: &str, active: bool) {
        let reply = self.exchange(&json!({
            "type": "set_tools", "pattern": pattern, "active": active, "expires_after_s": null
        }));
        assert_eq!(reply["type"], "done", "{reply}");
    }

    /// One message there and one back.
    pub(crate) fn exchange(&mut self, message: &Value) -> Value {
        let payload = message.to_string();
        let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
        let frame = [&length, payload.as_bytes()].concat();
        self.stream.write_all(&frame).expect("the server reads");
        let mut length = [0; 4];
        self.stream.read_exact(&mut length).expect("the server answers");
        let mut payload = vec![0; u32::from_be_bytes(length) as usize];
        self.stream.read_exact(&mut payload).expect("the server answers");
        serde_json::from_slice(&payload).expect("JSON")
    }
}
