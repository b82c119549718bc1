//! Between authorize and execute: asking a person, and holding on to exactly what they are asked
//! about.
//!
//! A call that waits gives its place in the queue up and takes it again before it runs. Not here: who
//! waits and what was decided (`approvals`), and whether a person must be asked (the policy crate).

use std::path::Path;

use cofferdam_backend::RunProgress;
use cofferdam_fs::Workspace;
use cofferdam_policy::{Approval, PendingGrant, Program};
use cofferdam_protocol::{ApprovalAnswer, Elicitation, ErrorCode, Failure, admin::WaitingApproval};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::{
    approvals::{Claim, Outcome, Question, Redeemed},
    audit::Facts,
    failure,
    normalize::Notes,
    pipeline::{GrantedCall, Pipeline},
    queue::Permit,
    settings::{ApprovalChannel, ApprovalSettings},
};

/// What the person behind a call is told while it goes on.
#[derive(Clone, Debug, PartialEq)]
pub enum ApprovalEvent {
    /// The call waits: ask, and give the answer to [`Executor::answer`](crate::Executor::answer).
    Asked(Box<WaitingApproval>),
    /// No answer is needed any more.
    Settled,
}

/// One call under way, beside what it is to do.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) session: String,
    /// sha256 of the call's arguments.
    pub(crate) digest: String,
    /// How its person can be asked.
    pub(crate) elicitation: Elicitation,
    /// Where questions go, with [`Elicitation::Push`].
    pub(crate) questions: Option<mpsc::Sender<ApprovalEvent>>,
    /// What is recorded of it.
    pub(crate) facts: Facts,
    /// Its place among the running calls.
    pub(crate) permit: Permit,
    pub(crate) progress: watch::Sender<RunProgress>,
    pub(crate) cancel: CancellationToken,
}

/// What would run once a person has agreed: held, not merely named.
#[derive(Debug)]
pub(crate) struct HeldCall {
    pub(crate) pending: PendingGrant,
    pub(crate) input: Option<Vec<u8>>,
    pub(crate) notes: Notes,
    pub(crate) workspace: Workspace,
}

/// Why a call ends without having run.
#[derive(Debug)]
pub(crate) enum Stopped {
    /// It was refused or failed.
    Failed(Failure),
    /// It waits for its caller to come back with an answer.
    NeedsApproval(Box<WaitingApproval>),
}

impl From<Failure> for Stopped {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// Who is asked about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asked {
    caller: bool,
    admin: bool,
}

impl ApprovalSettings {
    /// Whether the owner is asked about every call that somebody is asked about.
    pub(crate) fn asks_owner(&self) -> bool {
        self.asked(Elicitation::None).admin
    }

    fn asked(&self, elicitation: Elicitation) -> Asked {
        use ApprovalChannel::{Admin, Auto, Elicitation as Caller};
        Asked {
            caller: elicitation != Elicitation::None && matches!(self.channel, Auto | Caller),
            admin: self.admin && matches!(self.channel, Auto | Admin),
        }
    }
}

impl HeldCall {
    /// Holds what a person is to be asked about.
    ///
    /// # Errors
    /// When the directory in which it would start has gone.
    pub(crate) fn new(
        pending: PendingGrant,
        input: Option<Vec<u8>>,
        notes: Notes,
        workspace: Workspace,
    ) -> Result<Self, Failure> {
        let directory = identity(&workspace, &pending.plan().working_directory)?;
        Ok(Self { pending: pending.held_at(directory), input, notes, workspace })
    }

    /// Bytes that the caller chose.
    fn size(&self) -> usize {
        let program = match &self.pending.plan().program {
            Program::Script { source, .. } => source.len(),
            Program::Command(words) => words.iter().map(|word| word.len()).sum(),
        };
        program + self.input.as_ref().map_or(0, Vec::len)
    }

    /// Permission to run exactly this, if everything still is what the person was shown.
    ///
    /// # Errors
    /// `approval_required` when it is not.
    pub(crate) fn approve(self, by: Approval, generation: u64) -> Result<GrantedCall, Failure> {
        let changed = |what: &str| {
            let message = format!("{what} while the call waited, so the approval does not hold");
            Err(Failure::new(ErrorCode::ApprovalRequired, message)
                .with_hint("make the call again to have it asked about as it is now"))
        };
        if self.pending.generation() != generation {
            return changed("the profiles were read again");
        }
        let folder = &self.pending.plan().working_directory;
        // For the message: the sandbox looks again, once it is inside.
        if identity(&self.workspace, folder).is_ok_and(|now| Some(now) == self.pending.directory())
        {
            let Self { pending, input, notes, workspace } = self;
            Ok(GrantedCall { grant: pending.approve(by), input, notes, workspace })
        } else {
            changed("the working directory was replaced")
        }
    }
}

fn identity(workspace: &Workspace, folder: &Path) -> Result<(u64, u64), Failure> {
    workspace.directory_identity(folder).map_err(|error| failure::of_path(&error))
}

impl Pipeline {
    /// Asks whoever can decide, and comes back when they have.
    ///
    /// # Errors
    /// Whatever came instead of an agreement; and the question itself when the caller must come back
    /// with the answer.
    pub(crate) async fn ask(
        &self,
        held: HeldCall,
        caller: Caller,
    ) -> Result<(HeldCall, Approval, Caller), Stopped> {
        let asked = self.settings.approval.asked(caller.elicitation);
        if !asked.caller && !asked.admin {
            return Err(self.unasked(&held.pending).into());
        }
        // What cannot run need not be asked about.
        let promised =
            self.backends.promise(&held.pending).map_err(|error| failure::of_selection(&error))?;
        let digest = caller.digest.clone();
        let input = held.input.as_deref();
        let question = Question::new(&caller.session, digest, &held.pending, input, &promised);
        if asked.caller && caller.elicitation == Elicitation::InputRequired {
            let bytes = held.size();
            let shown = self.approvals.park(question, held, bytes)?;
            if asked.admin {
                tell_owner(&shown);
            }
            return Err(Stopped::NeedsApproval(shown));
        }
        let (by, caller) = self.wait(question, asked, caller).await?;
        Ok((held, by, caller))
    }

    /// Waits for a decision, without a place among the running calls.
    async fn wait(
        &self,
        question: Question,
        asked: Asked,
        caller: Caller,
    ) -> Result<(Approval, Caller), Failure> {
        let Caller { permit, questions, cancel, progress, .. } = caller;
        let mut waiting = self.approvals.wait(question)?;
        let away = permit.step_aside();
        let note = b"waiting for a person to agree".to_vec();
        progress.send_modify(|progress| progress.last_line = note);
        if let Some(shown) = waiting.shown() {
            if asked.admin {
                tell_owner(&shown);
            }
            let told = match &questions {
                Some(to) if asked.caller => to.send(ApprovalEvent::Asked(shown)).await.is_ok(),
                _ => false,
            };
            if !told && !asked.admin {
                waiting.give_up();
            }
        }
        let outcome = tokio::select! {
            biased;
            () = cancel.cancelled() => None,
            outcome = waiting.outcome() => Some(outcome),
        };
        drop(waiting);
        if let Some(to) = &questions {
            // Whoever asks is told at once, not when the run has ended.
            let _ = to.send(ApprovalEvent::Settled).await;
        }
        match outcome {
            Some(Outcome::Allowed(by)) => {
                progress.send_modify(|progress| progress.last_line.clear());
                let permit =
                    away.come_back(cancel.clone()).await.map_err(|_| cancelled_while_waiting())?;
                Ok((by, Caller { permit, questions, cancel, progress, ..caller }))
            }
            Some(Outcome::Denied) => Err(denied()),
            Some(Outcome::Expired) => Err(expired(self.settings.approval.wait)),
            Some(Outcome::Unreachable) => Err(Failure::new(
                ErrorCode::ApprovalRequired,
                "a person must agree before this may run, and could not be asked",
            )
            .with_hint("use a client that can ask its person, or let the server's owner decide")),
            None => Err(cancelled_while_waiting()),
        }
    }

    /// The call that a caller has come back for, if a person agreed.
    ///
    /// # Errors
    /// Whatever came instead of an agreement; and the question again when there is no answer.
    pub(crate) fn redeem(
        &self,
        tool: &str,
        caller: &Caller,
        answer: &ApprovalAnswer,
    ) -> Result<(HeldCall, Approval), Stopped> {
        let Caller { session, digest, elicitation, .. } = caller;
        let claim = Claim { id: &answer.id, session, tool, digest };
        match self.approvals.redeem(claim, answer.allow)? {
            Redeemed::Allowed(held, by) => Ok((held, by)),
            Redeemed::Denied => Err(denied().into()),
            Redeemed::Unanswered(again) if *elicitation == Elicitation::InputRequired => {
                Err(Stopped::NeedsApproval(again))
            }
            Redeemed::Unanswered(_) => Err(Failure::new(
                ErrorCode::ApprovalRequired,
                "a person must agree before this may run, and the call brings no answer",
            )
            .with_hint("send the answer with the call, from a client that can ask its person")
            .into()),
        }
    }

    /// A person would have to agree, and nobody can be asked.
    pub(crate) fn unasked(&self, pending: &PendingGrant) -> Failure {
        let settings = &self.settings.approval;
        let hint = match settings.channel {
            ApprovalChannel::None => {
                "the configuration has nobody asked (`[approval] channel = \"none\"`); use a profile \
                 that does not ask, or have the server's owner change one of them"
            }
            ApprovalChannel::Elicitation => {
                "this client cannot ask its person; use one that can (MCP elicitation), or have the \
                 server's owner allow `[approval] channel = \"auto\"` and decide with `cofferdam \
                 approvals`"
            }
            ApprovalChannel::Auto | ApprovalChannel::Admin => {
                "neither this client nor a server's owner can be asked; use a client that can ask \
                 its person (MCP elicitation), or a profile that does not ask"
            }
        };
        failure::of_unasked(pending, hint)
    }
}

/// The log is the owner's: it says what to do.
fn tell_owner(shown: &WaitingApproval) {
    tracing::warn!(
        tool = shown.tool,
        session = shown.session,
        "a call waits for a person: see `cofferdam approvals list`"
    );
}

fn denied() -> Failure {
    Failure::new(ErrorCode::Denied, "Tool execution was denied by the user.")
        .with_hint("do not try the same again; ask the user how to go on")
}

fn expired(wait: std::time::Duration) -> Failure {
    let message = format!(
        "a person must agree before this may run, and nobody did within {} s",
        wait.as_secs()
    );
    Failure::new(ErrorCode::ApprovalRequired, message).with_hint(
        "tell the user that the call waits for them and make it again; the server's owner decides with \
         `cofferdam approvals`, and can raise `approval.wait`",
    )
}

fn cancelled_while_waiting() -> Failure {
    Failure::new(ErrorCode::Cancelled, "the call was cancelled while it waited for a person")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_asked_depends_on_the_channel_the_client_and_the_server() {
        use ApprovalChannel as Channel;
        let table = [
            // channel, caller without / with elicitation, and the owner
            (Channel::Auto, false, true, true),
            (Channel::Elicitation, false, true, false),
            (Channel::Admin, false, false, true),
            (Channel::None, false, false, false),
        ];
        for (channel, without, with, owner) in table {
            for admin in [false, true] {
                let settings = ApprovalSettings { channel, admin, ..ApprovalSettings::default() };
                let admin = owner && admin;
                let cannot = settings.asked(Elicitation::None);
                assert_eq!(cannot, Asked { caller: without, admin }, "{channel:?}");
                for can in [Elicitation::Push, Elicitation::InputRequired] {
                    assert_eq!(settings.asked(can), Asked { caller: with, admin }, "{channel:?}");
                }
            }
        }
    }
}
