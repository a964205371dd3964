//! The operations of S3, as `s3s` calls them. All other operations return `NotImplemented`.
use crate::bucket::{Bucket, Buckets, Opened};
use crate::configuration::check_configuration;
use crate::document::Document;
use crate::fault::{Fault, Outcome};
use crate::keep_alive;
use crate::limits::{COMPLETION_SECONDS, LIST_BUCKETS_MAX};
use crate::metrics::Metrics;
use crate::remove::is_empty;
use crate::sums::Etags;
use crate::upload_locks::UploadLocks;
use esker::Pool;
use esker::types::Epoch;
use esker::types::info::ContainerInfo;
use s3s::dto::*;
use s3s::{S3, S3Error, S3ErrorCode, S3Request, S3Response, S3Result};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// The buckets of a pool, as S3. Clones share them.
#[derive(Clone)]
pub(crate) struct Service {
    buckets: Arc<Buckets>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) etags: Etags,
    pub(crate) upload_locks: Arc<UploadLocks>,
}

impl Service {
    pub(crate) fn new(pool: Pool, metrics: Arc<Metrics>, etags: Etags) -> Self {
        let buckets = Arc::new(Buckets::new(pool));
        Self { buckets, metrics, etags, upload_locks: Arc::default() }
    }

    /// Opens a bucket, or uses it if it is open: a file system, or a container of other objects.
    pub(crate) fn opened(&self, name: &str) -> Outcome<Opened> {
        self.buckets.get(name)
    }

    /// Converts the result of an operation on a bucket to a reply without headers of its own.
    fn answer<T>(&self, bucket: &str, output: Outcome<T>) -> S3Result<S3Response<T>> {
        self.checked(bucket, output).map(S3Response::new).map_err(S3Error::from)
    }

    /// Returns the result of an operation on a bucket. If the container was destroyed, closes the bucket: another
    /// container may have the name when the client tries again.
    pub(crate) fn checked<T>(&self, bucket: &str, output: Outcome<T>) -> Outcome<T> {
        if output.as_ref().is_err_and(Fault::is_closed) {
            self.buckets.close(bucket);
        }
        output
    }

    /// The open bucket of this name, for operations on files. Fails for a container without files.
    pub(crate) fn bucket(&self, name: &str) -> Outcome<Bucket> {
        self.buckets.files(name)
    }
}

/// A bucket in the list of buckets.
fn shown(container: ContainerInfo) -> s3s::dto::Bucket {
    let time = |created: Epoch| SystemTime::UNIX_EPOCH.checked_add(created.unix_time());
    let created = container.creation().and_then(time);
    s3s::dto::Bucket {
        name: Some(container.label),
        creation_date: created.map(Timestamp::from),
        ..Default::default()
    }
}

/// Most buckets in a page of the list: the number that the client asks for, up to [`LIST_BUCKETS_MAX`]. All without a
/// number.
fn page_size(asked: Option<i32>) -> Outcome<usize> {
    match asked.map(usize::try_from) {
        None => Ok(usize::MAX),
        Some(Ok(count @ 1..)) => Ok(count.min(LIST_BUCKETS_MAX)),
        Some(_) => {
            let why = format!("max-buckets is 1 to {LIST_BUCKETS_MAX} (LIST_BUCKETS_MAX)");
            Err(Fault::new(S3ErrorCode::InvalidArgument, why))
        }
    }
}

#[async_trait::async_trait]
impl S3 for Service {
    /// Lists the containers with a label. The token of a page is the last name on it.
    async fn list_buckets(
        &self,
        req: S3Request<ListBucketsInput>,
    ) -> S3Result<S3Response<ListBucketsOutput>> {
        let ListBucketsInput { prefix, continuation_token, max_buckets, .. } = req.input;
        let mut all = self.buckets.list().map_err(S3Error::from)?;
        let after = continuation_token.unwrap_or_default();
        let begins =
            |name: &str| prefix.as_ref().is_none_or(|prefix| name.starts_with(prefix.as_str()));
        all.retain(|container| begins(&container.label) && container.label > after);
        let count = page_size(max_buckets).map_err(S3Error::from)?;
        let is_cut = all.len() > count;
        all.truncate(count);
        let continuation_token = all.last().filter(|_| is_cut).map(|last| last.label.clone());
        let buckets = Some(all.into_iter().map(shown).collect());
        Ok(S3Response::new(ListBucketsOutput {
            buckets,
            continuation_token,
            prefix,
            ..Default::default()
        }))
    }

    async fn create_bucket(
        &self,
        req: S3Request<CreateBucketInput>,
    ) -> S3Result<S3Response<CreateBucketOutput>> {
        if req.input.object_lock_enabled_for_bucket == Some(true) {
            return Err(S3Error::with_message(
                S3ErrorCode::NotImplemented,
                "objects cannot be locked here",
            ));
        }
        if let Some(document) = req.extensions.get::<Document>() {
            check_configuration(&document.take_text(), req.extensions.get())?;
        }
        let location = format!("/{}", req.input.bucket);
        self.buckets.create(&req.input.bucket).map_err(S3Error::from)?;
        Ok(S3Response::new(CreateBucketOutput { location: Some(location) }))
    }

    async fn head_bucket(
        &self,
        req: S3Request<HeadBucketInput>,
    ) -> S3Result<S3Response<HeadBucketOutput>> {
        let found = self.buckets.current(&req.input.bucket);
        self.answer(&req.input.bucket, found.map(|_| HeadBucketOutput::default()))
    }

    async fn delete_bucket(
        &self,
        req: S3Request<DeleteBucketInput>,
    ) -> S3Result<S3Response<DeleteBucketOutput>> {
        let removed = self.buckets.remove(&req.input.bucket, is_empty);
        self.answer(&req.input.bucket, removed.map(|()| DeleteBucketOutput::default()))
    }

    async fn get_bucket_location(
        &self,
        req: S3Request<GetBucketLocationInput>,
    ) -> S3Result<S3Response<GetBucketLocationOutput>> {
        let found = self.buckets.recent(&req.input.bucket);
        self.answer(&req.input.bucket, found.map(|_| GetBucketLocationOutput::default()))
    }

    /// The empty reply means, in S3, that the bucket has no versions.
    async fn get_bucket_versioning(
        &self,
        req: S3Request<GetBucketVersioningInput>,
    ) -> S3Result<S3Response<GetBucketVersioningOutput>> {
        let found = self.buckets.recent(&req.input.bucket);
        self.answer(&req.input.bucket, found.map(|_| GetBucketVersioningOutput::default()))
    }

    async fn put_object(
        &self,
        req: S3Request<PutObjectInput>,
    ) -> S3Result<S3Response<PutObjectOutput>> {
        self.answer(&req.input.bucket.clone(), self.put(req).await)
    }

    async fn get_object(
        &self,
        req: S3Request<GetObjectInput>,
    ) -> S3Result<S3Response<GetObjectOutput>> {
        self.checked(&req.input.bucket.clone(), self.get(req)).map_err(S3Error::from)
    }

    async fn head_object(
        &self,
        req: S3Request<HeadObjectInput>,
    ) -> S3Result<S3Response<HeadObjectOutput>> {
        self.checked(&req.input.bucket.clone(), self.head(req.input)).map_err(S3Error::from)
    }

    async fn get_object_attributes(
        &self,
        req: S3Request<GetObjectAttributesInput>,
    ) -> S3Result<S3Response<GetObjectAttributesOutput>> {
        self.answer(&req.input.bucket.clone(), self.attributes(req.input))
    }

    async fn delete_object(
        &self,
        req: S3Request<DeleteObjectInput>,
    ) -> S3Result<S3Response<DeleteObjectOutput>> {
        self.answer(&req.input.bucket.clone(), self.delete(req.input))
    }

    async fn delete_objects(
        &self,
        req: S3Request<DeleteObjectsInput>,
    ) -> S3Result<S3Response<DeleteObjectsOutput>> {
        self.answer(&req.input.bucket.clone(), self.delete_many(req.input))
    }

    async fn copy_object(
        &self,
        req: S3Request<CopyObjectInput>,
    ) -> S3Result<S3Response<CopyObjectOutput>> {
        self.answer(&req.input.bucket.clone(), self.copy(req))
    }

    async fn list_objects(
        &self,
        req: S3Request<ListObjectsInput>,
    ) -> S3Result<S3Response<ListObjectsOutput>> {
        self.answer(&req.input.bucket.clone(), self.list_v1(req.input))
    }

    async fn list_objects_v2(
        &self,
        req: S3Request<ListObjectsV2Input>,
    ) -> S3Result<S3Response<ListObjectsV2Output>> {
        self.answer(&req.input.bucket.clone(), self.list_v2(req.input))
    }

    async fn list_object_versions(
        &self,
        req: S3Request<ListObjectVersionsInput>,
    ) -> S3Result<S3Response<ListObjectVersionsOutput>> {
        self.answer(&req.input.bucket.clone(), self.list_versions(req.input))
    }

    async fn get_object_tagging(
        &self,
        req: S3Request<GetObjectTaggingInput>,
    ) -> S3Result<S3Response<GetObjectTaggingOutput>> {
        self.answer(&req.input.bucket.clone(), self.tags(req.input))
    }

    async fn put_object_tagging(
        &self,
        req: S3Request<PutObjectTaggingInput>,
    ) -> S3Result<S3Response<PutObjectTaggingOutput>> {
        self.answer(&req.input.bucket.clone(), self.set_tags(req.input))
    }

    async fn delete_object_tagging(
        &self,
        req: S3Request<DeleteObjectTaggingInput>,
    ) -> S3Result<S3Response<DeleteObjectTaggingOutput>> {
        self.answer(&req.input.bucket.clone(), self.remove_tags(req.input))
    }

    async fn create_multipart_upload(
        &self,
        req: S3Request<CreateMultipartUploadInput>,
    ) -> S3Result<S3Response<CreateMultipartUploadOutput>> {
        self.answer(&req.input.bucket.clone(), self.begin_upload(req))
    }

    async fn upload_part(
        &self,
        req: S3Request<UploadPartInput>,
    ) -> S3Result<S3Response<UploadPartOutput>> {
        self.answer(&req.input.bucket.clone(), self.add_part(req).await)
    }

    async fn upload_part_copy(
        &self,
        req: S3Request<UploadPartCopyInput>,
    ) -> S3Result<S3Response<UploadPartCopyOutput>> {
        self.answer(&req.input.bucket.clone(), self.copy_part(req))
    }

    async fn complete_multipart_upload(
        &self,
        req: S3Request<CompleteMultipartUploadInput>,
    ) -> S3Result<S3Response<CompleteMultipartUploadOutput>> {
        let (service, input) = (self.clone(), req.input);
        let work = move || service.answer(&input.bucket.clone(), service.complete_upload(input));
        keep_alive::complete(work, Duration::from_secs(COMPLETION_SECONDS)).await
    }

    async fn abort_multipart_upload(
        &self,
        req: S3Request<AbortMultipartUploadInput>,
    ) -> S3Result<S3Response<AbortMultipartUploadOutput>> {
        self.answer(&req.input.bucket.clone(), self.abort_upload(req.input))
    }

    async fn list_parts(
        &self,
        req: S3Request<ListPartsInput>,
    ) -> S3Result<S3Response<ListPartsOutput>> {
        self.answer(&req.input.bucket.clone(), self.list_parts_of(req.input))
    }

    async fn list_multipart_uploads(
        &self,
        req: S3Request<ListMultipartUploadsInput>,
    ) -> S3Result<S3Response<ListMultipartUploadsOutput>> {
        self.answer(&req.input.bucket.clone(), self.list_uploads(req.input))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::condition::Condition;
    use crate::copy::Source;
    use crate::put::tests::{put_content, put_small};
    use crate::read::Reading;
    use crate::remove::remove;
    use esker::Wait;
    use esker::types::info::OpenMode;

    #[test]
    fn bucket_is_opened_again_after_its_container_was_replaced() {
        let pool = Pool::connect("memory:s3-service-replaced", OpenMode::ReadWrite).unwrap();
        let service = Service::new(pool.clone(), Default::default(), Default::default());
        service.buckets.create("b").unwrap();
        put_small(&service.bucket("b").unwrap(), "k");
        let list = || {
            let input = ListObjectsV2Input { bucket: "b".to_owned(), ..Default::default() };
            service.answer("b", service.list_v2(input)).map(|reply| reply.output.key_count)
        };
        assert_eq!(list().unwrap(), Some(1));
        pool.destroy_container("b", true).wait().unwrap();
        service.buckets.create("b").unwrap();
        service.buckets.create("other").unwrap();
        let other = service.bucket("other").unwrap();
        assert!(list().is_err());
        assert_eq!(list().unwrap(), Some(0));
        assert!(std::ptr::eq(other.fs(), service.bucket("other").unwrap().fs()), "it stays open");
    }

    #[test]
    fn deletion_of_objects_fails_if_the_container_was_replaced() {
        let pool = Pool::connect("memory:s3-service-deletes", OpenMode::ReadWrite).unwrap();
        let service = Service::new(pool.clone(), Default::default(), Default::default());
        service.buckets.create("b").unwrap();
        service.bucket("b").unwrap();
        pool.destroy_container("b", true).wait().unwrap();
        service.buckets.create("b").unwrap();
        let objects = vec![ObjectIdentifier { key: "k".to_owned(), ..Default::default() }];
        let delete = Delete { objects, quiet: None };
        let input = DeleteObjectsInput::builder().bucket("b".to_owned()).delete(delete);
        let input = input.build().unwrap();
        let delete = || service.answer("b", service.delete_many(input.clone()));
        assert!(delete().is_err());
        assert!(delete().unwrap().output.errors.is_none());
    }

    #[test]
    fn bucket_is_not_removed_while_an_object_is_read() {
        let pool = Pool::connect("memory:s3-service-read", OpenMode::ReadWrite).unwrap();
        let service = Service::new(pool, Default::default(), Default::default());
        service.buckets.create("b").unwrap();
        put_content(&service.bucket("b").unwrap(), "k", b"content");
        let (head, content) = service.open("b", "k", false).unwrap();
        remove(&service.bucket("b").unwrap(), "k", &Condition::default()).unwrap();
        let refused = service.buckets.remove("b", is_empty).unwrap_err();
        assert!(refused.is_code("OperationAborted"), "{refused:?}");
        let reading = Reading::new(content.unwrap(), 0..head.size, &service.metrics).unwrap();
        drop(reading);
        service.buckets.remove("b", is_empty).unwrap();
    }

    #[test]
    fn page_of_buckets_has_at_least_one() {
        let size = |asked| page_size(asked).ok();
        assert_eq!(size(None), Some(usize::MAX));
        assert_eq!((size(Some(1)), size(Some(10_001))), (Some(1), Some(10_000)));
        assert_eq!((size(Some(0)), size(Some(-1))), (None, None));
    }

    #[test]
    fn source_of_a_copy_is_opened_again_after_its_container_was_replaced() {
        let pool = Pool::connect("memory:s3-service-source", OpenMode::ReadWrite).unwrap();
        let service = Service::new(pool.clone(), Default::default(), Default::default());
        service.buckets.create("b").unwrap();
        let bucket = service.bucket("b").unwrap();
        pool.destroy_container("b", true).wait().unwrap();
        service.buckets.create("b").unwrap();
        let open = |bucket| Source::open(bucket, "k", &Condition::default()).map(drop);
        assert!(service.checked("b", open(&bucket)).is_err());
        let again = service.bucket("b").unwrap();
        assert!(!std::ptr::eq(bucket.fs(), again.fs()));
    }
}
