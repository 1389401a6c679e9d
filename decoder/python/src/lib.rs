//! The decoder as a module of Python; `pcce/__init__.pyi` describes it.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::{self, PathBuf};
use std::sync::{Mutex, PoisonError};

use pcce::FrameKind;
use pcce::filter::{self, Words};
use pcce::load::{LoadCause, load};
use pcce::numbers::{Numbers, NumbersError, NumbersFile};
use pcce::render::{Format, folded_frame};
use pcce::session::{Failure, MAX_CALLS_IN_LOG, Session};
use pcce::store::Store;
use pcce::style::Style;
use pcce::token::BuildId;
use pyo3::create_exception;
use pyo3::exceptions::{PyOSError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::{MutexExt, PyOnceLock};
use pyo3::types::{PyDict, PyInt, PyString, PyTuple};
use self_cell::self_cell;

create_exception!(pcce, DecodeError, PyValueError);
create_exception!(pcce, DictionaryError, PyValueError);

/// Bound on the contexts that a decoder keeps: hot ones occur again and again.
const MAX_KEPT: usize = 1 << 14;

#[pyclass(frozen, eq, hash, module = "pcce")]
#[derive(Clone, PartialEq, Eq, Hash)]
struct Frame {
    kind: FrameKind,
    #[pyo3(get)]
    function: Option<String>,
    #[pyo3(get)]
    file: Option<String>,
    #[pyo3(get)]
    line: Option<u32>,
    #[pyo3(get)]
    column: Option<u32>,
    #[pyo3(get)]
    inlined: bool,
    certain: bool,
    build_id: Option<BuildId>,
}

#[pymethods]
impl Frame {
    #[getter]
    fn kind(&self) -> &'static str {
        self.kind.name()
    }

    #[getter]
    fn build_id(&self) -> Option<String> {
        self.build_id.map(|id| id.to_string())
    }

    fn __str__(&self) -> String {
        Style::default().line(&pcce::Frame {
            kind: self.kind,
            function: self.function.as_deref(),
            linkage_name: None,
            file: self.file.as_deref(),
            line: self.line,
            column: self.column,
            inlined: self.inlined,
            certain: self.certain,
            build_id: self.build_id,
        })
    }

    fn __repr__(&self) -> String {
        format!("<pcce.Frame {}>", self.__str__())
    }
}

impl From<pcce::Frame<'_>> for Frame {
    fn from(frame: pcce::Frame<'_>) -> Self {
        Self {
            kind: frame.kind,
            function: frame.function.map(str::to_owned),
            file: frame.file.map(str::to_owned),
            line: frame.line,
            column: frame.column,
            inlined: frame.inlined,
            certain: frame.certain,
            build_id: frame.build_id,
        }
    }
}

#[pyclass(frozen, module = "pcce")]
struct Context {
    list: Vec<Frame>,
    /// `list` as an object of Python, made when it is first asked for.
    frames: PyOnceLock<Py<PyTuple>>,
    #[pyo3(get)]
    folded: String,
}

#[pymethods]
impl Context {
    #[getter]
    fn frames(&self, py: Python<'_>) -> PyResult<Py<PyTuple>> {
        let frames = || Ok::<_, PyErr>(PyTuple::new(py, self.list.iter().cloned())?.unbind());
        Ok(self.frames.get_or_try_init(py, frames)?.clone_ref(py))
    }

    #[getter]
    fn missing<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let ids: BTreeSet<BuildId> = self.list.iter().filter_map(|frame| frame.build_id).collect();
        PyTuple::new(py, ids.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    fn __str__(&self) -> String {
        let numbered = self.list.iter().enumerate();
        let lines: Vec<String> =
            numbered.map(|(n, frame)| format!("{:<4}{}", format!("#{n} "), frame.__str__())).collect();
        lines.join("\n")
    }

    fn __repr__(&self) -> String {
        format!("<pcce.Context {}>", self.folded)
    }
}

impl Context {
    fn of(frames: Vec<pcce::Frame<'_>>) -> Self {
        let style = Style::default();
        let folded: Vec<String> = frames.iter().rev().map(|frame| folded_frame(frame, &style)).collect();
        let list = frames.into_iter().map(Frame::from).collect();
        Self { list, frames: PyOnceLock::new(), folded: folded.join(";") }
    }
}

/// The dictionaries of a decoder.
struct Sources {
    decoder: pcce::Decoder,
    store: Store,
}

impl Sources {
    fn open(places: &[PathBuf], numbers: Option<&PathBuf>) -> PyResult<Self> {
        let refused = |error: &dyn std::fmt::Display| DictionaryError::new_err(error.to_string());
        let missing = |path: &PathBuf, error: &std::io::Error| {
            // The text without the number, which Python shows itself.
            let text = error.to_string();
            let text = text.split(" (os error").next().unwrap_or_default().to_owned();
            PyOSError::new_err((error.raw_os_error(), text, path.clone().into_os_string()))
        };
        let (mut folders, mut files, mut dictionaries) = (Vec::new(), Vec::new(), Vec::new());
        for place in places {
            if fs::metadata(place).map_err(|error| missing(place, &error))?.is_dir() {
                folders.push(place.clone());
                continue;
            }
            dictionaries.push(load(place).map_err(|error| match &error.cause {
                LoadCause::Io(cause) => missing(place, cause),
                _ => refused(&error),
            })?);
            files.push(place.clone());
        }
        let mut decoder = pcce::Decoder::new(&dictionaries).map_err(|error| refused(&error))?;
        let searches = files.is_empty() || !folders.is_empty();
        for (number, path) in files.iter().enumerate() {
            decoder.set_program(number, path.clone(), None);
        }
        let numbers = numbers.map(|path| match NumbersFile::open(path) {
            Ok(file) => Ok(Numbers::from(file)),
            Err(NumbersError::Io(cause)) => Err(missing(path, &cause)),
            Err(error) => Err(refused(&format!("{}: {error}", path.display()))),
        });
        let numbers = numbers.transpose()?;
        if let Some(numbers) = &numbers {
            decoder.set_numbers(numbers.clone());
        }
        let program = files.first().cloned();
        let store = Store::new(&folders, dictionaries.into_iter().zip(files).collect()).with_numbers(numbers);
        let store = match program {
            Some(program) => store.with_libraries(&program, !searches),
            None => store,
        };
        Ok(Self { decoder, store })
    }
}

self_cell!(
    struct Reading {
        owner: Sources,
        #[not_covariant]
        dependent: Session,
    }
);

impl Reading {
    fn of(sources: Sources) -> Self {
        Self::new(sources, |sources| {
            let session = Session::new(&sources.decoder, Format::Folded).with_limit(MAX_CALLS_IN_LOG);
            session.searching(&sources.store)
        })
    }

    fn decode(&mut self, token: &str) -> Result<Context, Failure> {
        self.with_dependent_mut(|_, session| Ok(Context::of(session.frames(token.as_bytes())?)))
    }
}

#[pyclass(frozen, module = "pcce")]
struct Decoder {
    places: Vec<PathBuf>,
    numbers: Option<PathBuf>,
    reading: Mutex<Reading>,
    known: Mutex<HashMap<String, Py<Context>>>,
}

#[pymethods]
impl Decoder {
    #[new]
    #[pyo3(signature = (*places, numbers=None))]
    fn new(py: Python<'_>, places: Vec<PathBuf>, numbers: Option<PathBuf>) -> PyResult<Self> {
        // A process that unpickles the decoder may have another working directory.
        let whole = |path: PathBuf| path::absolute(&path).unwrap_or(path);
        let (places, numbers) = (places.into_iter().map(whole).collect::<Vec<_>>(), numbers.map(whole));
        let sources = py.detach(|| Sources::open(&places, numbers.as_ref()))?;
        let (reading, known) = (Mutex::new(Reading::of(sources)), Mutex::default());
        Ok(Self { places, numbers, reading, known })
    }

    fn decode(&self, py: Python<'_>, token: &Bound<'_, PyAny>) -> PyResult<Py<Context>> {
        let token = match token.cast::<PyString>() {
            Ok(text) => text.clone(),
            Err(_) if token.is_instance_of::<PyInt>() => token.str()?,
            Err(_) => return Err(PyTypeError::new_err("a token is a str, and a number of a context an int")),
        };
        let token = &*token.to_cow()?;
        let known = || self.known.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner);
        if let Some(context) = known().get(token) {
            return Ok(context.clone_ref(py));
        }
        // Others may run meanwhile: a dictionary may have to be read, or fetched.
        let decoded = py.detach(|| self.reading.lock().unwrap_or_else(PoisonError::into_inner).decode(token));
        let decoded = decoded.map_err(|failure| DecodeError::new_err(failure.to_string()))?;
        let context = Py::new(py, decoded)?;
        let mut known = known();
        if known.len() >= MAX_KEPT {
            known.clear();
        }
        known.insert(token.to_owned(), context.clone_ref(py));
        Ok(context)
    }

    fn __getnewargs_ex__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyTuple>, Bound<'py, PyDict>)> {
        let named = PyDict::new(py);
        named.set_item("numbers", self.numbers.as_ref().map(|path| path.as_os_str()))?;
        Ok((PyTuple::new(py, self.places.iter().map(|path| path.as_os_str()))?, named))
    }
}

#[pyfunction]
fn tokens(text: &Bound<'_, PyString>) -> PyResult<Vec<String>> {
    let text = text.to_cow()?;
    Ok(filter::tokens(text.as_bytes(), Words::Tokens).map(|place| text[place].to_owned()).collect())
}

#[pymodule]
mod _pcce {
    #[pymodule_export]
    use super::{Context, DecodeError, Decoder, DictionaryError, Frame, tokens};
}
