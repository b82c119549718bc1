//! `cofferdam mcp`, hidden: the gateway process. Also installed as `cofferdam-mcp`.
//!
//! It reads no configuration file: it parses what strangers send, so all it knows is what it is told
//! here.

use std::{net::IpAddr, time::Duration};

use clap::{Args, ValueEnum};
use cofferdam_gateway::{ResultForm, ToolNames};
use cofferdam_protocol::Endpoint;

use super::common::{UsageError, loopback, url_path};

/// As written.
#[derive(Debug, Args)]
pub(crate) struct McpArgs {
    /// Where the worker listens: a path, unix:PATH or tcp://127.0.0.1:PORT
    #[arg(long, value_name = "ENDPOINT")]
    worker: Endpoint,
    /// Ends any call that lasts longer, in milliseconds [default: the tools' own deadlines]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    timeout_ms: Option<u64>,
    /// Serve standard input and output instead of HTTP
    #[arg(long, conflicts_with_all = ["host", "port", "path"])]
    stdio: bool,
    /// Address to listen on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    host: String,
    /// Port to listen on; 0 picks a free one
    #[arg(long, value_name = "N", default_value_t = 8050)]
    port: u16,
    /// Path of the endpoint
    #[arg(long, value_name = "PATH", default_value = "/mcp")]
    path: String,
    /// Further name that a Host or Origin header may carry; may be repeated
    #[arg(long, value_name = "NAME")]
    allowed_host: Vec<String>,
    /// Which spelling of the tools' names is listed
    #[arg(long, value_enum, default_value_t = NamesArg::Dotted)]
    tool_names: NamesArg,
    /// Whether structured results are wrapped as {"result": N}
    #[arg(long, value_enum, default_value_t = FormArg::Wrapped)]
    result_form: FormArg,
    /// Add an image block for a result that has a picture
    #[arg(long)]
    inline_images: bool,
    /// How long calls under way may go on after the order to stop, in milliseconds
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    drain_ms: u64,
}

/// [`ToolNames`] on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum NamesArg {
    Dotted,
    Underscore,
    Both,
}

/// [`ResultForm`] on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum FormArg {
    Wrapped,
    Plain,
}

/// What the gateway process is to do, and for which worker.
#[derive(Debug)]
pub(crate) struct Mcp {
    /// Where the worker listens.
    pub(crate) worker: Endpoint,
    /// What to do.
    pub(crate) plan: GatewayPlan,
}

/// What the gateway process is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GatewayPlan {
    /// Ends any call that lasts longer.
    pub(crate) request_timeout: Option<Duration>,
    /// Where to listen; `None` serves standard input and output.
    pub(crate) http: Option<HttpPlan>,
    /// Which spelling of the tools' names is listed.
    pub(crate) tool_names: ToolNames,
    /// The form of structured results.
    pub(crate) result_form: ResultForm,
    /// Adds an image block for a result that has a picture.
    pub(crate) inline_images: bool,
    /// How long calls under way may go on after the order to stop.
    pub(crate) drain: Duration,
}

/// Where HTTP is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HttpPlan {
    /// Loopback address.
    pub(crate) host: IpAddr,
    /// 0 picks a free one.
    pub(crate) port: u16,
    /// Begins with a slash.
    pub(crate) path: String,
    /// Further names that a Host or Origin header may carry.
    pub(crate) allowed_hosts: Vec<String>,
}

impl McpArgs {
    /// What was meant.
    ///
    /// # Errors
    /// [`UsageError`] for an address that is none or that other machines could reach.
    pub(crate) fn resolve(self) -> Result<Mcp, UsageError> {
        let http = if self.stdio {
            None
        } else {
            Some(HttpPlan {
                host: loopback(&self.host)?,
                port: self.port,
                path: url_path(self.path)?,
                allowed_hosts: self.allowed_host,
            })
        };
        let plan = GatewayPlan {
            request_timeout: self.timeout_ms.map(Duration::from_millis),
            http,
            tool_names: match self.tool_names {
                NamesArg::Dotted => ToolNames::Dotted,
                NamesArg::Underscore => ToolNames::Underscore,
                NamesArg::Both => ToolNames::Both,
            },
            result_form: match self.result_form {
                FormArg::Wrapped => ResultForm::Wrapped,
                FormArg::Plain => ResultForm::Plain,
            },
            inline_images: self.inline_images,
            drain: Duration::from_millis(self.drain_ms),
        };
        Ok(Mcp { worker: self.worker, plan })
    }
}

impl GatewayPlan {
    /// The arguments that make [`McpArgs::resolve`] give this: how the supervisor passes it on.
    pub(crate) fn to_arguments(&self, worker: &Endpoint) -> Vec<String> {
        let tool_names = match self.tool_names {
            ToolNames::Dotted => "dotted",
            ToolNames::Underscore => "underscore",
            ToolNames::Both => "both",
        };
        let result_form = match self.result_form {
            ResultForm::Wrapped => "wrapped",
            ResultForm::Plain => "plain",
        };
        let mut arguments = vec![
            format!("--worker={worker}"),
            format!("--drain-ms={}", self.drain.as_millis()),
            format!("--tool-names={tool_names}"),
            format!("--result-form={result_form}"),
        ];
        if let Some(timeout) = self.request_timeout {
            arguments.push(format!("--timeout-ms={}", timeout.as_millis().max(1)));
        }
        if self.inline_images {
            arguments.push("--inline-images".to_owned());
        }
        match &self.http {
            None => arguments.push("--stdio".to_owned()),
            Some(http) => {
                arguments.push(format!("--host={}", http.host));
                arguments.push(format!("--port={}", http.port));
                arguments.push(format!("--path={}", http.path));
                let names = http.allowed_hosts.iter();
                arguments.extend(names.map(|name| format!("--allowed-host={name}")));
            }
        }
        arguments
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Alone {
        #[command(flatten)]
        arguments: McpArgs,
    }

    #[test]
    fn what_the_supervisor_passes_on_arrives() -> Result<(), Box<dyn std::error::Error>> {
        let worker: Endpoint = "unix:/run/user/1000/cofferdam-x/worker.sock".parse()?;
        let sent = GatewayPlan {
            request_timeout: Some(Duration::from_millis(1500)),
            http: Some(HttpPlan {
                host: "::1".parse()?,
                port: 0,
                path: "/a b".to_owned(),
                allowed_hosts: vec!["-x".to_owned(), "example.org".to_owned()],
            }),
            tool_names: ToolNames::Both,
            result_form: ResultForm::Plain,
            inline_images: true,
            drain: Duration::from_secs(3),
        };
        let line = std::iter::once("cofferdam".to_owned()).chain(sent.to_arguments(&worker));
        let arrived = Alone::try_parse_from(line)?.arguments.resolve()?;
        assert_eq!(arrived.worker, worker);
        assert_eq!(arrived.plan, sent);
        Ok(())
    }
}
