//! What a call can count on.

use cofferdam_protocol::{
    ErrorCode, ToolCall,
    tool::{AttributePayload, BashExecute},
};

use super::*;

fn call() -> ToolCall {
    ToolCall::Attribute(AttributePayload { name: "limits".to_owned() })
}

fn records(place: &Place) -> Vec<Record> {
    place.text().lines().map(|line| Record::read(line.as_bytes()).unwrap()).collect()
}

/// A folder in which nothing can be made, for root neither.
fn unwritable(place: &Place, on_error: OnError) -> AuditSettings {
    write(&place.0.path().join("a file"), "");
    let path = place.0.path().join("a file/audit.jsonl");
    AuditSettings { path, on_error, ..place.settings() }
}

#[tokio::test]
async fn a_call_is_recorded_before_and_after() {
    let place = Place::new();
    let audit = Audit::new(Some(place.settings())).unwrap();
    let recorded = audit.begin("stdio", &call()).await.unwrap();
    let begun = records(&place);
    assert_eq!(begun.len(), 1, "before anything else is done");
    recorded.end_of(&Ok::<_, cofferdam_protocol::Failure>(())).await;
    let all = records(&place);
    let texts = |key| all.iter().map(|record| record.text(key).unwrap()).collect::<Vec<_>>();
    assert_eq!(texts("event"), ["begin", "end"]);
    assert_eq!(texts("tool"), ["executor.get_attribute_payload"; 2]);
    assert_eq!(texts("digest"), [call().digest().unwrap().as_str(); 2]);
    assert_eq!(texts("call")[0], texts("call")[1]);
    assert_eq!(all[1].text("result"), Some("done"));
}

#[tokio::test]
async fn neither_arguments_nor_messages_are_recorded() {
    let place = Place::new();
    let audit = Audit::new(Some(place.settings())).unwrap();
    let secret = "hunter2";
    let call = ToolCall::Bash(BashExecute { code: secret.to_owned(), ..BashExecute::default() });
    let recorded = audit.begin("stdio", &call).await.unwrap();
    let failure = cofferdam_protocol::Failure::new(ErrorCode::Denied, secret).with_hint(secret);
    recorded.end_with(&failure.into()).await;
    let words = [secret.into()];
    audit.begin_command("command-line", &words).await.unwrap().end_of::<()>(&Ok(())).await;
    assert!(!place.text().contains(secret), "{}", place.text());
    assert_eq!(records(&place)[1].text("code"), Some("denied"));
}

#[tokio::test]
async fn words_that_are_no_text_have_a_digest_of_their_own() {
    use std::os::unix::ffi::OsStringExt;
    let place = Place::new();
    let audit = Audit::new(Some(place.settings())).unwrap();
    for word in [b"\xff".to_vec(), "\u{fffd}".into(), b"[255]".to_vec(), b"\xfe".to_vec()] {
        let words = [std::ffi::OsString::from_vec(word)];
        audit.begin_command("command-line", &words).await.unwrap().end_of::<()>(&Ok(())).await;
    }
    let mut digests: Vec<_> =
        records(&place).iter().map(|record| record.text("digest").unwrap().to_owned()).collect();
    digests.sort();
    digests.dedup();
    assert_eq!(digests.len(), 4);
}

#[tokio::test]
async fn long_names_are_cut() {
    let place = Place::new();
    let audit = Audit::new(Some(place.settings())).unwrap();
    let session = "s".repeat(100_000);
    audit.begin(&session, &call()).await.unwrap().end_of::<()>(&Ok(())).await;
    assert!(place.text().len() < 3000);
    assert!(place.verify().is_ok());
}

#[tokio::test]
async fn ids_are_unique_over_processes() {
    let place = Place::new();
    for _ in 0..2 {
        let audit = Audit::new(Some(place.settings())).unwrap();
        for _ in 0..2 {
            audit.begin("stdio", &call()).await.unwrap().end_of::<()>(&Ok(())).await;
        }
    }
    assert_eq!(place.verify().unwrap().unfinished, []);
    assert_eq!(place.verify().unwrap().records, 8);
}

#[test]
fn a_log_that_cannot_be_opened_is_refused_at_the_start_and_with_warn_is_not() {
    let place = Place::new();
    let error = Audit::new(Some(unwritable(&place, OnError::Refuse))).unwrap_err();
    assert!(error.hint().contains("audit.path"), "{}", error.hint());
    assert!(Audit::new(Some(unwritable(&place, OnError::Warn))).is_ok());
    write(&place.path(), "notes\n");
    let error = Audit::new(Some(place.settings())).unwrap_err();
    assert!(error.hint().contains("aside"), "{}", error.hint());
}

#[tokio::test]
async fn a_call_that_cannot_be_recorded_is_refused_and_the_owners_path_not_told() {
    let place = Place::new();
    let audit = Audit::new(Some(place.settings())).unwrap();
    write(&place.path(), "somebody else's\n");
    let failure = audit.begin("stdio", &call()).await.unwrap_err();
    assert_eq!(failure.code, ErrorCode::AuditUnavailable);
    insta::assert_snapshot!(failure.message, @"the call cannot be recorded in the audit log, so it was not run");
    assert_eq!(place.text(), "somebody else's\n");
    // Once it can be, it is.
    fs::remove_file(place.path()).unwrap();
    assert!(audit.begin("stdio", &call()).await.is_ok());
}

#[tokio::test]
async fn with_warn_a_call_that_cannot_be_recorded_goes_on() {
    let place = Place::new();
    let audit = Audit::new(Some(unwritable(&place, OnError::Warn))).unwrap();
    audit.start(Path::new("/w")).await.unwrap();
    audit.begin("stdio", &call()).await.unwrap().end_of::<()>(&Ok(())).await;
    audit.stop().await;
}

#[tokio::test]
async fn without_a_log_nothing_is_written() {
    let audit = Audit::new(None).unwrap();
    audit.start(Path::new("/w")).await.unwrap();
    audit.begin("stdio", &call()).await.unwrap().end_of::<()>(&Ok(())).await;
    audit.stop().await;
}

#[tokio::test]
async fn a_server_that_did_not_stop_is_told() {
    let place = Place::new();
    let first = Audit::new(Some(place.settings())).unwrap();
    first.start(Path::new("/w")).await.unwrap();
    let second = Audit::new(Some(place.settings())).unwrap();
    second.start(Path::new("/w")).await.unwrap();
    second.stop().await;
    assert_eq!(place.verify().unwrap().not_stopped, 1);
}
