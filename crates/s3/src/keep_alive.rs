//! Completions of large uploads: clients and proxies would time out while the server copies the parts.
use crate::fault::Fault;
use s3s::dto::CompleteMultipartUploadOutput;
use s3s::{S3Error, S3ErrorCode, S3Response, S3Result};
use std::time::Duration;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::timeout;

/// Reply to a completion.
type Reply = S3Result<S3Response<CompleteMultipartUploadOutput>>;

/// Runs `work` on another thread, and returns its reply. If `work` takes longer than `patience`, the returned reply has
/// status 200, and `s3s` sends spaces until the result follows in the body, as S3 does: also if it is an error.
pub(crate) async fn complete(
    work: impl FnOnce() -> Reply + Send + 'static,
    patience: Duration,
) -> Reply {
    let mut task = tokio::task::spawn_blocking(work);
    match timeout(patience, &mut task).await {
        Ok(done) => done.unwrap_or_else(panic_reply),
        Err(_) => {
            let future = Some(Box::pin(late_result(task)) as _);
            Ok(S3Response::new(CompleteMultipartUploadOutput { future, ..Default::default() }))
        }
    }
}

/// The result for the body of a reply that has begun. Logs errors of the server, since the status does not show them.
async fn late_result(task: JoinHandle<Reply>) -> S3Result<CompleteMultipartUploadOutput> {
    let reply = task.await.unwrap_or_else(panic_reply);
    if let Err(error) = &reply
        && error.status_code().is_none_or(|status| status.is_server_error())
    {
        tracing::error!(%error, "failed after the reply had begun");
    }
    reply.map(|reply| reply.output)
}

/// The reply of a completion whose thread has panicked.
#[cold]
fn panic_reply(error: JoinError) -> Reply {
    tracing::error!(%error, "failed");
    let why = "the completion was interrupted: try again";
    Err(S3Error::from(Fault::new(S3ErrorCode::InternalError, why)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// A reply with this ETag, or an error.
    fn reply(etag: &str) -> Reply {
        match etag {
            "" => Err(S3ErrorCode::NoSuchUpload.into()),
            etag => Ok(S3Response::new(CompleteMultipartUploadOutput {
                e_tag: Some(crate::record::strong(etag)),
                ..Default::default()
            })),
        }
    }

    #[tokio::test]
    async fn reply_of_a_fast_completion_has_its_status() {
        let done = complete(|| reply("a"), Duration::MAX).await.unwrap();
        assert!(done.output.e_tag.is_some() && done.output.future.is_none());
        let failed = complete(|| reply(""), Duration::MAX).await.unwrap_err();
        assert_eq!(*failed.code(), S3ErrorCode::NoSuchUpload);
    }

    #[tokio::test]
    async fn result_of_a_slow_completion_follows_in_the_body() {
        for etag in ["a", ""] {
            let (end, ended) = mpsc::channel::<()>();
            let work = move || {
                ended.recv().unwrap();
                reply(etag)
            };
            let begun = complete(work, Duration::ZERO).await.unwrap().output;
            end.send(()).unwrap();
            let result = begun.future.unwrap().await;
            assert_eq!(result.is_ok_and(|output| output.e_tag.is_some()), etag == "a");
        }
    }
}
