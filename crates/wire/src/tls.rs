//! TLS 1.3 between clients and engines.
//!
//! There are no certificates: an engine draws a key when it starts, and shows it as a raw public key (RFC 7250). Any
//! program can do that, so TLS alone authenticates neither side. The handshake with the pool's secret inside does: its
//! proofs cover the [`Binding`] of the TLS connection. An attacker in between who speaks TLS with both sides has two
//! connections with two bindings. Neither side accepts the proofs of the other.
use esker_types::{Error, ErrorKind, Result};
use ring::rand::SystemRandom;
use ring::signature::Ed25519KeyPair;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite, BufReader};
use tokio_rustls::rustls::client::Resumption;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::crypto::ring::cipher_suite::{
    TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256,
};
use tokio_rustls::rustls::crypto::ring::{default_provider, sign::any_eddsa_type};
use tokio_rustls::rustls::crypto::{CryptoProvider, verify_tls13_signature_with_raw_key};
use tokio_rustls::rustls::pki_types::{
    CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime,
};
use tokio_rustls::rustls::server::AlwaysResolvesServerRawPublicKeys;
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::rustls::{
    self, ClientConfig, ConnectionCommon, DigitallySignedStruct, PeerIncompatible, ServerConfig,
    SignatureScheme,
};
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

/// Secret value that only the two ends of a TLS connection know: the channel binding `tls-exporter` of RFC 9266.
pub type Binding = [u8; 32];

/// A stream whose bytes travel encrypted.
pub type Stream<S> = TlsStream<BufReader<S>>;

/// Label of the exporter in RFC 9266.
const EXPORTER: &[u8] = b"EXPORTER-Channel-Binding";

/// Encrypted bytes that are received at a time, if they are there: several records.
const RECEIVE_BUFFER: usize = 128 << 10;

/// Most encrypted bytes that wait for the network.
const SEND_BUFFER: usize = 256 << 10;

/// TLS for the engine's side.
#[derive(Clone)]
pub struct Acceptor(TlsAcceptor);

impl Acceptor {
    /// Draws a key for an engine. It lasts as long as the engine: clients authenticate by the secret of the pool, not
    /// by this key.
    ///
    /// # Errors
    /// `Io` if the system has no random bytes.
    pub fn new() -> Result<Self> {
        let configured = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| unusable(&error))?;
        let key = Arc::new(AlwaysResolvesServerRawPublicKeys::new(Arc::new(drawn_key()?)));
        let mut config = configured.with_no_client_auth().with_cert_resolver(key);
        // Sessions are not resumed: each connection has keys of its own.
        config.send_tls13_tickets = 0;
        Ok(Self(TlsAcceptor::from(Arc::new(config))))
    }

    /// Performs the TLS handshake with a client.
    ///
    /// # Errors
    /// `Corrupt` if the client does not speak TLS 1.3; `Io` if the connection is lost.
    pub async fn accept<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: S,
    ) -> Result<(Stream<S>, Binding)> {
        let accepted = self.0.accept(buffered(stream)).await;
        let mut stream = accepted.map_err(|error| tls_error(&error, "the client"))?;
        let binding = prepare(stream.get_mut().1)?;
        Ok((stream.into(), binding))
    }
}

/// Performs the TLS handshake with an engine. The interface demands a name of the server, which is neither sent nor
/// checked: the pool's secret authenticates the engine.
///
/// # Errors
/// `Corrupt` if it does not speak TLS 1.3; `Io` if the connection is lost.
pub async fn connect<S: AsyncRead + AsyncWrite + Unpin>(stream: S) -> Result<(Stream<S>, Binding)> {
    let config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .map_err(|error| unusable(&error))?;
    let verifier = Arc::new(AnyKey(provider()));
    let config = config.dangerous().with_custom_certificate_verifier(verifier);
    let mut config = config.with_no_client_auth();
    config.enable_sni = false;
    config.resumption = Resumption::disabled();
    let name = ServerName::try_from("engine").map_err(|error| unusable(&error))?;
    let connected = TlsConnector::from(Arc::new(config)).connect(name, buffered(stream)).await;
    let mut stream = connected.map_err(|error| tls_error(&error, "the engine"))?;
    let binding = prepare(stream.get_mut().1)?;
    Ok((stream.into(), binding))
}

/// Encryption by ring. The first cipher suite is the fastest: most processors have instructions for it.
fn provider() -> Arc<CryptoProvider> {
    let cipher_suites =
        vec![TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256];
    Arc::new(CryptoProvider { cipher_suites, ..default_provider() })
}

/// Makes a new key of TLS, without a certificate: peers authenticate by the pool's secret.
fn drawn_key() -> Result<CertifiedKey> {
    let failed = |_| Error::new(ErrorKind::Io, "the system gave no random bytes for a key of TLS");
    let drawn = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).map_err(failed)?;
    let drawn = PrivatePkcs8KeyDer::from(drawn.as_ref());
    let key = any_eddsa_type(&drawn).map_err(|error| unusable(&error))?;
    let public = key.public_key().map(|public| CertificateDer::from(public.to_vec()));
    Ok(CertifiedKey::new(public.into_iter().collect(), key))
}

/// Adds a buffer for reads, because the records of a stream are short: several are received at a time.
fn buffered<S: AsyncRead>(stream: S) -> BufReader<S> {
    BufReader::with_capacity(RECEIVE_BUFFER, stream)
}

/// Prepares a connection for frames. Returns its channel binding.
fn prepare<D>(connection: &mut ConnectionCommon<D>) -> Result<Binding> {
    connection.set_buffer_limit(Some(SEND_BUFFER));
    let binding = connection.export_keying_material([0; 32], EXPORTER, Some(&[]));
    binding.map_err(|error| unusable(&error))
}

#[cold]
fn unusable(error: &dyn std::fmt::Display) -> Error {
    Error::new(ErrorKind::NotSupported, format!("TLS cannot be used: {error}"))
}

#[cold]
fn tls_error(error: &std::io::Error, peer: &str) -> Error {
    match error.kind() {
        std::io::ErrorKind::InvalidData => {
            let message = format!(
                "{peer} does not speak TLS 1.3 ({error}): use the pool's current map on all nodes"
            );
            Error::new(ErrorKind::Corrupt, message)
        }
        // A peer that ends does the same as one without TLS.
        std::io::ErrorKind::UnexpectedEof => {
            let message = format!(
                "{peer} closed the connection in the TLS handshake: it has ended, or does not speak TLS 1.3 (use the \
                 pool's current map on all nodes)"
            );
            Error::new(ErrorKind::Io, message)
        }
        _ => Error::io("beginning TLS with a node", error),
    }
}

/// Accepts any key of an engine, because the proofs inside authenticate it. The engine must own the key that it shows.
#[derive(Debug)]
struct AnyKey(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyKey {
    fn verify_server_cert(
        &self,
        _key: &CertificateDer<'_>,
        _others: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _key: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        Err(PeerIncompatible::Tls12NotOffered.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        let key = SubjectPublicKeyInfoDer::from(key.as_ref());
        let known = &self.0.signature_verification_algorithms;
        verify_tls13_signature_with_raw_key(message, &key, signed, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}
