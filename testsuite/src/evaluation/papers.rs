//! The figures of the papers, from `testsuite/evaluation/papers.toml`.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context as _, Result};
use serde::Deserialize;

use super::declarations::declarations;

/// Both papers' tables, by program.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Papers {
    /// Precise Calling Context Encoding, Tables 1 and 2.
    pub pcce: BTreeMap<String, Pcce>,
    /// Dynamic and Adaptive Calling Context Encoding, Table 1.
    pub dacce: BTreeMap<String, Dacce>,
}

/// A row of PCCE's Tables 1 and 2. Numbers that may be too large are texts.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "named as the papers' columns")]
pub struct Pcce {
    pub version: String,
    pub nodes: u64,
    pub edges: u64,
    pub recursive: u64,
    pub pointers: u64,
    pub max_id: String,
    pub ball_larus: String,
    pub depth_max: (u64, u64),
    pub depth_90: (u64, u64),
    pub contexts: u64,
}

/// A row of DACCE's Table 1: the columns of the PCCE that it compares itself with.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "named as the papers' columns")]
pub struct Dacce {
    pub version: String,
    pub nodes: u64,
    pub edges: u64,
    pub max_id: String,
    pub pushes: u64,
    pub depth: f64,
    pub calls: u64,
}

impl Papers {
    pub fn read() -> Result<Papers> {
        let path = declarations().join("papers.toml");
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        toml::from_str(&text).with_context(|| path.display().to_string())
    }
}
