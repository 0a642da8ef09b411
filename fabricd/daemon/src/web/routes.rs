//! What is asked for by which path, and the rules that all answers keep.

use super::Shared;
use super::access::{Rights, is_local_name, is_own_page};
use super::ask::{Ask, Network};
use super::listen::Line;
use crate::aside::aside;
use crate::metrics::plain;
use angara_fabric::Link;
use angara_net::torus::Direction;
use axum::body::{Body, to_bytes};
use axum::extract::{Path, Request, State};
use axum::http::header::{self, HeaderName};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use tokio::time::timeout_at;

/// Most bytes of a request's body.
const BODY_MAX: usize = 4 << 10;

/// Nothing is loaded from anywhere else, nothing is run that is not a file of the page, and no other page frames it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const HEADERS: [(HeaderName, &str); 6] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

/// Content type of OpenMetrics text.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Content type of the older text.
const PLAIN: &str = "text/plain; version=0.0.4; charset=utf-8";

type Us = State<Arc<Shared>>;

/// The page, what it asks for, and metrics for whoever may read.
pub(crate) fn page(shared: Arc<Shared>) -> Router {
    let mut router = Router::new();
    for file in angara_page::FILES {
        let answer = move || async { ([(header::CONTENT_TYPE, file.kind)], file.text) };
        router = router.route(&format!("/{}", file.name), get(answer));
        if file.name == "index.html" {
            router = router.route("/", get(answer));
        }
    }
    router
        .route("/api/network", get(network))
        .route("/api/events", get(events))
        .route("/api/link/{node}/{direction}", get(link))
        .route("/api/job/{job}", get(job))
        .route("/api/job/{job}/set", get(set))
        .route("/api/past/{after}/{since}", get(past))
        .route("/api/faults", get(faults))
        .route("/api/waits/{job}", get(waits))
        .route("/api/fault", post(fault))
        .route("/api/scene", get(scene).post(set_scene))
        .route("/metrics", get(scrape))
        .layer(from_fn(check_host))
        .layer(from_fn_with_state(shared.clone(), note_rights))
        .layer(from_fn(add_headers))
        .with_state(shared)
}

/// Metrics alone. `private`: whoever can connect may read, whatever he calls this server.
pub(crate) fn metrics(shared: Arc<Shared>, private: bool) -> Router {
    let open = private || shared.open;
    let answer = move |State(shared): Us, headers: HeaderMap| async move {
        match open || reads(&shared, &headers) {
            true => scraped(&shared, &headers).await,
            false => no_token(),
        }
    };
    let router = Router::new().route("/metrics", get(answer));
    let router = if private { router } else { router.layer(from_fn(check_host)) };
    router.layer(from_fn_with_state(shared.clone(), note_rights)).layer(from_fn(add_headers)).with_state(shared)
}

/// Whoever has a token is known from now on, and keeps his connection whoever else comes.
async fn note_rights(
    State(shared): Us,
    Extension(line): Extension<Arc<Line>>,
    request: Request,
    next: Next,
) -> Response {
    if reads(&shared, request.headers()) {
        line.know();
    }
    let response = next.run(request).await;
    line.answered();
    response
}

async fn add_headers(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    HEADERS.into_iter().for_each(|(name, value)| drop(headers.insert(name, HeaderValue::from_static(value))));
    response
}

async fn check_host(request: Request, next: Next) -> Response {
    match is_local_name(request.headers()) {
        true => next.run(request).await,
        false => refusal(
            StatusCode::MISDIRECTED_REQUEST,
            "this server is asked for by address or as localhost only; see the Host header",
        ),
    }
}

fn refusal(status: StatusCode, why: &str) -> Response {
    (status, [(header::CONTENT_TYPE, "text/plain; charset=utf-8")], format!("{why}\n")).into_response()
}

fn json(text: String) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}

fn busy() -> Response {
    refusal(StatusCode::SERVICE_UNAVAILABLE, "the daemon has too much to answer, or ends; try again")
}

fn unknown() -> Response {
    refusal(StatusCode::FORBIDDEN, "this needs a token of this daemon; open the URL that `angara web` prints")
}

/// The body of a request. It comes in the time that its head has left of its own, or not at all.
async fn body_of(line: &Line, body: Body) -> Result<Vec<u8>, Response> {
    let too_large = |_| refusal(StatusCode::PAYLOAD_TOO_LARGE, "a request has at most 4096 bytes");
    match timeout_at(line.due(), to_bytes(body, BODY_MAX)).await {
        Ok(bytes) => bytes.map(|bytes| bytes.to_vec()).map_err(too_large),
        Err(_) => Err(refusal(StatusCode::REQUEST_TIMEOUT, "a request comes whole within 5 seconds")),
    }
}

/// True if whoever asks may read.
fn reads(shared: &Shared, headers: &HeaderMap) -> bool {
    shared.access.rights(headers).is_some()
}

/// The network, and whether whoever asks may change something.
#[derive(Serialize)]
struct Opened {
    #[serde(flatten)]
    network: Network,
    control: bool,
}

async fn network(State(shared): Us, headers: HeaderMap) -> Response {
    let Some(rights) = shared.access.rights(&headers) else { return unknown() };
    match shared.asker.ask(Ask::Network).await {
        Some(network) => {
            let opened = Opened { network, control: rights == Rights::Control };
            json(serde_json::to_string(&opened).unwrap_or_default())
        }
        None => busy(),
    }
}

async fn events(State(shared): Us, Extension(line): Extension<Arc<Line>>, headers: HeaderMap) -> Response {
    if !reads(&shared, &headers) {
        return unknown();
    }
    let Some(network) = shared.asker.ask(Ask::Network).await else { return busy() };
    match shared.feed.open(network.shape, line) {
        Some(events) => ([(header::CONTENT_TYPE, "text/event-stream")], Body::new(events)).into_response(),
        None => refusal(StatusCode::SERVICE_UNAVAILABLE, "as many pages are open as may be; close one"),
    }
}

async fn link(State(shared): Us, Path((node, direction)): Path<(u32, usize)>, headers: HeaderMap) -> Response {
    if !reads(&shared, &headers) {
        return unknown();
    }
    let Some(network) = shared.asker.ask(Ask::Network).await else { return busy() };
    let there = Direction::from_index(direction).filter(|_| (node as usize) < network.shape.nodes());
    let Some(dir) = there.filter(|dir| network.shape.neighbour(node, *dir).is_some()) else {
        return refusal(StatusCode::NOT_FOUND, "there is no such link");
    };
    match shared.asker.ask(|tell| Ask::Link(Link { node, dir }, tell)).await {
        Some(Ok(detail)) => json(detail.to_string()),
        Some(Err(f)) => refusal(StatusCode::SERVICE_UNAVAILABLE, &format!("{}; {}", f.message, f.remedy)),
        None => busy(),
    }
}

async fn job(State(shared): Us, Path(job): Path<u64>, headers: HeaderMap) -> Response {
    if !reads(&shared, &headers) {
        return unknown();
    }
    match shared.asker.ask(|tell| Ask::Job(job, tell)).await {
        Some(Some(nodes)) => json(serde_json::Value::from(nodes).to_string()),
        Some(None) => refusal(StatusCode::NOT_FOUND, "there is no such job"),
        None => busy(),
    }
}

async fn set(State(shared): Us, Path(job): Path<u64>, headers: HeaderMap) -> Response {
    if !reads(&shared, &headers) {
        return unknown();
    }
    match shared.asker.ask(|tell| Ask::Set(job, tell)).await {
        Some(Some(set)) => json(serde_json::to_string(&set).unwrap_or_default()),
        Some(None) => refusal(StatusCode::NOT_FOUND, "there is no such job, or it has no node set"),
        None => busy(),
    }
}

/// `since` is in milliseconds.
async fn past(State(shared): Us, Path((after, since)): Path<(u64, u64)>, headers: HeaderMap) -> Response {
    if !reads(&shared, &headers) {
        return unknown();
    }
    match shared.asker.ask(|tell| Ask::Past(after, since as f64 / 1e3, tell)).await {
        Some(past) => json(past.to_string()),
        None => busy(),
    }
}

async fn faults(State(shared): Us, headers: HeaderMap) -> Response {
    if !reads(&shared, &headers) {
        return unknown();
    }
    match shared.asker.ask(Ask::Faults).await {
        Some(Some(faults)) => json(faults.to_string()),
        _ => busy(),
    }
}

async fn waits(State(shared): Us, Path(job): Path<u64>, headers: HeaderMap) -> Response {
    if !reads(&shared, &headers) {
        return unknown();
    }
    match shared.asker.ask(|tell| Ask::Waits(job, tell)).await {
        Some(Some(waits)) => json(waits.to_string()),
        Some(None) => refusal(StatusCode::NOT_FOUND, "there is no such job"),
        None => busy(),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Order {
    spec: String,
}

/// Reads what a page of this server with the right to change something sends.
async fn ordered(shared: &Shared, line: &Line, headers: &HeaderMap, body: Body) -> Result<Vec<u8>, Response> {
    if !is_own_page(headers) {
        let why = "this is not asked by a page of this server; see the Origin header";
        return Err(refusal(StatusCode::FORBIDDEN, why));
    }
    // Nobody is waited for who may not do it.
    match shared.access.rights(headers) {
        None => Err(unknown()),
        Some(Rights::Read) => {
            let why = "this page may only look; open the URL that `angara web --faults` prints";
            Err(refusal(StatusCode::FORBIDDEN, why))
        }
        Some(Rights::Control) => body_of(line, body).await,
    }
}

async fn fault(State(shared): Us, Extension(line): Extension<Arc<Line>>, headers: HeaderMap, body: Body) -> Response {
    let bytes = match ordered(&shared, &line, &headers, body).await {
        Ok(bytes) => bytes,
        Err(refused) => return refused,
    };
    let Ok(Order { spec }) = serde_json::from_slice(&bytes) else {
        return refusal(StatusCode::BAD_REQUEST, "send {\"spec\":\"link 0,0,0 +X down\"}");
    };
    match shared.asker.ask(|tell| Ask::Fault(spec, tell)).await {
        Some(Ok(())) => json("{}".into()),
        Some(Err(f)) => refusal(StatusCode::UNPROCESSABLE_ENTITY, &format!("{}; {}", f.message, f.remedy)),
        None => busy(),
    }
}

async fn scene(State(shared): Us, headers: HeaderMap) -> Response {
    match reads(&shared, &headers) {
        true => json(serde_json::to_string(&shared.scenes.read()).unwrap_or_default()),
        false => unknown(),
    }
}

async fn set_scene(
    State(shared): Us,
    Extension(line): Extension<Arc<Line>>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let bytes = match ordered(&shared, &line, &headers, body).await {
        Ok(bytes) => bytes,
        Err(refused) => return refused,
    };
    match serde_json::from_slice(&bytes).is_ok_and(|write| shared.scenes.write(write)) {
        true => json(serde_json::to_string(&shared.scenes.read()).unwrap_or_default()),
        false => refusal(StatusCode::BAD_REQUEST, "send {\"wanted\":\"dead-link\"}"),
    }
}

async fn scrape(State(shared): Us, headers: HeaderMap) -> Response {
    match reads(&shared, &headers) {
        true => scraped(&shared, &headers).await,
        false => no_token(),
    }
}

fn no_token() -> Response {
    let why =
        "metrics need `Authorization: Bearer TOKEN`, with the token of the file read.token in the runtime directory";
    let mut refused = refusal(StatusCode::UNAUTHORIZED, why);
    refused.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    refused
}

/// In the format that the scraper asks for; text of millions of characters is made on a thread of its own.
async fn scraped(shared: &Shared, headers: &HeaderMap) -> Response {
    let Some(Some(scrape)) = shared.asker.ask(Ask::Scrape).await else { return busy() };
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let open = accepted.flat_map(|text| text.split(',')).any(wants_open_metrics);
    let made = aside(move || {
        let text = scrape.text();
        if open { text } else { plain(&text) }
    });
    match made.await {
        Ok(text) => ([(header::CONTENT_TYPE, if open { OPEN_METRICS } else { PLAIN })], text).into_response(),
        Err(_) => busy(),
    }
}

/// One of the kinds that an `Accept` header lists.
fn wants_open_metrics(kind: &str) -> bool {
    let mut words = kind.split(';').map(str::trim);
    let named = words.next().is_some_and(|name| name.eq_ignore_ascii_case("application/openmetrics-text"));
    named && !words.any(|word| matches!(word, "q=0" | "q=0.0"))
}
