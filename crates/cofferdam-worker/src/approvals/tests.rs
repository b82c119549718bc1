//! The store: who decides, once, and what is never kept.

use futures_util::FutureExt;

use super::*;

const WAIT: Duration = Duration::from_secs(300);

fn approvals() -> Approvals<&'static str> {
    Approvals::new(WAIT)
}

fn question(session: &str) -> Question {
    Question::for_tests(session, "bash_coding_tool.execute", "d1")
}

fn claim<'a>(id: &'a str, session: &'a str) -> Claim<'a> {
    Claim { id, session, tool: "bash_coding_tool.execute", digest: "d1" }
}

fn park(approvals: &Approvals<&'static str>, session: &str) -> String {
    approvals.park(question(session), "plan", 10).unwrap().id
}

fn only_id(approvals: &Approvals<&'static str>) -> String {
    let all = approvals.list();
    assert_eq!(all.len(), 1, "{all:?}");
    all[0].id.clone()
}

/// The message of a refusal that says how to go on.
fn refusal(result: Result<Redeemed<&'static str>, Failure>) -> String {
    let failure = result.unwrap_err();
    assert_eq!(failure.code, ErrorCode::ApprovalRequired);
    assert!(failure.hint.is_some());
    failure.message
}

#[tokio::test]
async fn the_first_decision_about_a_waiting_call_holds() {
    let approvals = approvals();
    for (allow, outcome) in [(true, Outcome::Allowed(Approval::Admin)), (false, Outcome::Denied)] {
        let mut waiting = approvals.wait(question("a")).unwrap();
        assert!(waiting.outcome().now_or_never().is_none());
        let id = only_id(&approvals);
        approvals.decide(&id, allow, Approval::Admin).unwrap();
        assert!(approvals.decide(&id, !allow, Approval::Elicitation).is_err());
        approvals.give_up(&id);
        assert_eq!(waiting.outcome().await, outcome);
        assert_eq!(approvals.list(), [], "a decided call waits for nobody");
    }
}

#[tokio::test]
async fn a_call_that_stops_waiting_leaves() {
    let approvals = approvals();
    let waiting = approvals.wait(question("a")).unwrap();
    let id = only_id(&approvals);
    drop(waiting);
    assert_eq!(approvals.list(), []);
    assert!(approvals.decide(&id, true, Approval::Admin).is_err());
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_longer_than_the_bound() {
    let approvals = approvals();
    let mut waiting = approvals.wait(question("a")).unwrap();
    let begun = Instant::now();
    assert_eq!(waiting.outcome().await, Outcome::Expired);
    assert_eq!(begun.elapsed().as_secs(), WAIT.as_secs());
    let id = park(&approvals, "a");
    tokio::time::advance(WAIT - Duration::from_secs(1)).await;
    assert!(matches!(approvals.redeem(claim(&id, "a"), None), Ok(Redeemed::Unanswered(_))));
    tokio::time::advance(Duration::from_secs(1)).await;
    let message = refusal(approvals.redeem(claim(&id, "a"), Some(true)));
    assert_eq!(message, "this approval was used, refused or has expired");
}

#[tokio::test]
async fn a_call_that_nobody_can_decide_ends() {
    let approvals = approvals();
    let mut waiting = approvals.wait(question("a")).unwrap();
    waiting.give_up();
    assert_eq!(waiting.outcome().await, Outcome::Unreachable);
}

#[tokio::test]
async fn an_approval_is_used_once() {
    let approvals = approvals();
    let id = park(&approvals, "a");
    let redeemed = approvals.redeem(claim(&id, "a"), Some(true)).unwrap();
    assert!(matches!(redeemed, Redeemed::Allowed("plan", Approval::Elicitation)));
    let message = refusal(approvals.redeem(claim(&id, "a"), Some(true)));
    assert_eq!(message, "this approval was used, refused or has expired");
}

#[tokio::test]
async fn of_two_that_come_back_at_once_one_gets_the_plan() {
    let approvals = approvals();
    let id = park(&approvals, "a");
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let (approvals, id) = (approvals.clone(), id.clone());
            std::thread::spawn(move || approvals.redeem(claim(&id, "a"), Some(true)).is_ok())
        })
        .collect();
    let taken = threads.into_iter().map(|thread| thread.join().unwrap());
    assert_eq!(taken.filter(|taken| *taken).count(), 1);
}

#[tokio::test]
async fn a_refusal_burns_the_approval_too() {
    let approvals = approvals();
    let id = park(&approvals, "a");
    let denied = approvals.redeem(claim(&id, "a"), Some(false)).unwrap();
    assert!(matches!(denied, Redeemed::Denied));
    refusal(approvals.redeem(claim(&id, "a"), Some(true)));
}

#[tokio::test]
async fn another_caller_or_another_call_gets_nothing_and_spoils_nothing() {
    let approvals = approvals();
    let id = park(&approvals, "a");
    let own = claim(&id, "a");
    assert_eq!(
        refusal(approvals.redeem(Claim { session: "b", ..own }, Some(true))),
        "this approval was given to another caller"
    );
    for other in
        [Claim { digest: "d2", ..own }, Claim { tool: "python_coding_tool.execute", ..own }]
    {
        assert_eq!(
            refusal(approvals.redeem(other, Some(true))),
            "this approval is for another call: the tool or its arguments differ"
        );
    }
    refusal(approvals.redeem(Claim { id: "", ..own }, Some(true)));
    assert!(matches!(approvals.redeem(own, Some(true)), Ok(Redeemed::Allowed(..))));
}

#[tokio::test]
async fn a_waiting_call_cannot_be_redeemed() {
    let approvals = approvals();
    let _waiting = approvals.wait(question("a")).unwrap();
    let id = only_id(&approvals);
    refusal(approvals.redeem(claim(&id, "a"), Some(true)));
}

#[tokio::test]
async fn the_owner_s_word_counts_for_a_parked_call() {
    let approvals = approvals();
    let id = park(&approvals, "a");
    approvals.decide(&id, true, Approval::Admin).unwrap();
    let redeemed = approvals.redeem(claim(&id, "a"), None).unwrap();
    assert!(matches!(redeemed, Redeemed::Allowed("plan", Approval::Admin)));
    let id = park(&approvals, "a");
    approvals.decide(&id, false, Approval::Admin).unwrap();
    assert!(matches!(approvals.redeem(claim(&id, "a"), Some(true)), Ok(Redeemed::Denied)));
}

#[tokio::test]
async fn nothing_begins_after_a_person_said_no() {
    let approvals = approvals();
    let id = park(&approvals, "a");
    approvals.decide(&id, true, Approval::Admin).unwrap();
    assert!(matches!(approvals.redeem(claim(&id, "a"), Some(false)), Ok(Redeemed::Denied)));
    let id = park(&approvals, "a");
    approvals.decide(&id, true, Approval::Admin).unwrap();
    approvals.decide(&id, false, Approval::Admin).unwrap();
    assert!(matches!(approvals.redeem(claim(&id, "a"), None), Ok(Redeemed::Denied)));
}

#[tokio::test]
async fn a_question_without_an_answer_is_put_again() {
    let approvals = approvals();
    let id = park(&approvals, "a");
    let Redeemed::Unanswered(again) = approvals.redeem(claim(&id, "a"), None).unwrap() else {
        panic!("it was decided")
    };
    assert_eq!(again.id, id);
    assert!(matches!(approvals.redeem(claim(&id, "a"), Some(true)), Ok(Redeemed::Allowed(..))));
}

#[tokio::test]
async fn only_so_many_calls_wait_in_all_and_per_session() {
    let approvals = approvals();
    let mut waiting = Vec::new();
    for session in 0..MOST_WAITING / MOST_PER_SESSION {
        for _ in 0..MOST_PER_SESSION {
            waiting.push(approvals.wait(question(&session.to_string())).unwrap());
        }
        assert_eq!(approvals.wait(question("0")).unwrap_err().code, ErrorCode::Busy);
    }
    assert_eq!(approvals.wait(question("new")).unwrap_err().code, ErrorCode::Busy);
    assert_eq!(approvals.list().len(), MOST_WAITING);
    waiting.pop();
    assert!(approvals.wait(question("new")).is_ok());
}

#[tokio::test]
async fn parked_plans_hold_only_so_much_memory() {
    let approvals = approvals();
    let half = MOST_PARKED_BYTES / 2;
    let id = approvals.park(question("a"), "one", half).unwrap().id;
    approvals.park(question("a"), "other", half).unwrap();
    assert_eq!(approvals.park(question("a"), "third", 1).unwrap_err().code, ErrorCode::Busy);
    assert!(matches!(approvals.redeem(claim(&id, "a"), Some(true)), Ok(Redeemed::Allowed(..))));
    assert!(approvals.park(question("a"), "third", half).is_ok());
}

#[tokio::test]
async fn a_session_that_ends_takes_its_parked_calls_along() {
    let approvals = approvals();
    let (gone, kept) = (park(&approvals, "a"), park(&approvals, "b"));
    approvals.close_session("a");
    refusal(approvals.redeem(claim(&gone, "a"), Some(true)));
    assert!(approvals.redeem(claim(&kept, "b"), Some(true)).is_ok());
}

#[tokio::test(start_paused = true)]
async fn the_oldest_is_listed_first_with_its_times() {
    let approvals = approvals();
    let _one = approvals.wait(question("one")).unwrap();
    tokio::time::advance(Duration::from_secs(7)).await;
    park(&approvals, "two");
    let listed = approvals.list();
    let about: Vec<_> = listed
        .iter()
        .map(|call| (call.session.as_str(), call.waiting_s, call.expires_in_s))
        .collect();
    assert_eq!(about, [("one", 7, 293), ("two", 0, 300)]);
}

#[test]
fn ids_are_long_and_differ() {
    let (one, other) = (fresh_id().unwrap(), fresh_id().unwrap());
    assert_eq!(one.len(), 32);
    assert_ne!(one, other);
}
