//! The content of a link: the ids in its output, and the objects and members that have them.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::archive::{Archive, Member};
use crate::elf::{self, Found};
use crate::partial::Partial;
use crate::trace::Traced;
use crate::{Error, LinkedModule, PlainObject};

/// The place of a module's object.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Place {
    /// The object or the archive, with symbolic links resolved.
    pub file: PathBuf,
    /// The number of the member.
    pub member: Option<usize>,
}

/// The content of a link.
#[derive(Debug, Default)]
pub struct Linked {
    /// The modules, in the order of the output.
    pub modules: Vec<LinkedModule>,
    /// All objects and members that are a module. Of several copies, one was linked.
    pub places: Vec<(u64, Place)>,
    /// Outputs of partial links.
    pub partials: Vec<Partial>,
    /// All objects that the linker has named, including those that left nothing in the output.
    pub read: HashSet<Place>,
    /// The files that contain modules.
    pub with_modules: HashSet<PathBuf>,
    /// All objects, in the order in which the linker has named them.
    pub objects: Vec<Object>,
    /// All other objects.
    pub plain: Vec<PlainObject>,
    /// Shared libraries, needed or not.
    pub shared_libraries: Vec<PathBuf>,
    /// Linker scripts, and other files.
    pub others: Vec<PathBuf>,
    /// The archives, by path with symbolic links resolved.
    pub archives: HashMap<PathBuf, Rc<Archive>>,
}

/// An object and its place.
#[derive(Debug, Clone)]
pub struct Object {
    /// The object's place among the inputs.
    pub place: Place,
    /// The file under the name that the linker uses.
    pub file: PathBuf,
    range: Option<Range<u64>>,
    archive: Option<PathBuf>,
    /// True if the linker has made it of bitcode.
    pub by_linker: bool,
    /// Its own name. A member's is in the folder of the archive's name.
    pub name: PathBuf,
    /// Its name in messages.
    pub shown: String,
}

/// A path with symbolic links resolved.
pub fn canonical(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

impl Linked {
    /// Finds the objects for the ids of an output. `named` are the files that the command line names, and
    /// `compiled` the objects that the linker made of bitcode. Inputs of partial links are unpacked into
    /// `folder`.
    pub fn find(
        ids: &[u64],
        traced: &[Traced],
        named: &HashSet<PathBuf>,
        compiled: Vec<PathBuf>,
        folder: &Path,
    ) -> Result<Self, Error> {
        let mut linked = Linked::default();
        let mut objects = linked.objects_of(traced, named)?;
        for file in compiled {
            objects.push(Object::by_linker(&file)?);
        }
        linked.sort(ids, objects, folder)?;
        Ok(linked)
    }

    /// Finds the objects that have the ids, and classifies the others.
    pub fn sort(&mut self, ids: &[u64], objects: Vec<Object>, folder: &Path) -> Result<(), Error> {
        let wanted: HashSet<u64> = ids.iter().copied().collect();
        let mut seen = HashSet::new();
        // Each object with the index of the partial link that contains it.
        let mut found: HashMap<u64, Vec<(Object, Option<usize>)>> = HashMap::new();
        for object in objects {
            if !seen.insert(object.place.clone()) {
                continue;
            }
            let found_there = object.look()?;
            if let Found::Object(own, _) = &found_there {
                self.read.insert(object.place.clone());
                if !own.is_empty() {
                    self.with_modules.insert(object.place.file.clone());
                }
            }
            match found_there {
                Found::Bitcode => self.plain.push(object.plain(true)),
                Found::Object(own, None) if own.is_empty() && object.by_linker => {
                    return Err(Error::NotCaptured(object.shown));
                }
                Found::Object(own, None) if own.is_empty() => self.plain.push(object.plain(false)),
                // The object was read but not linked, or nothing of it is left.
                Found::Object(own, _) if !own.iter().any(|id| wanted.contains(id)) => continue,
                Found::Object(own, Some(inputs)) => {
                    let folder = folder.join(self.partials.len().to_string());
                    let partial = Partial::unpack(&object, &inputs, &own, &folder)?;
                    for id in own {
                        found.entry(id).or_default().push((object.clone(), Some(self.partials.len())));
                    }
                    self.plain.extend(partial.linked.plain.iter().cloned());
                    self.partials.push(partial);
                }
                Found::Object(own, None) => match own.as_slice() {
                    [id] => found.entry(*id).or_default().push((object.clone(), None)),
                    _ => return Err(Error::Joined { file: object.shown, modules: own.len() }),
                },
                Found::Library => {
                    self.shared_libraries.push(object.file);
                    continue;
                }
                Found::Other => {
                    self.others.push(object.file);
                    continue;
                }
            }
            self.objects.push(object);
        }
        let mut linked_ids = HashSet::new();
        for id in ids {
            let objects = found.get(id).ok_or(Error::Unexplained(*id))?;
            let (first, partial) = &objects[0];
            if !linked_ids.insert(id) {
                let times = ids.iter().filter(|other| *other == id).count();
                return Err(Error::LinkedTwice { file: first.shown.clone(), times });
            }
            if objects.len() > 1 {
                let bytes = first.bytes()?;
                for (other, _) in &objects[1..] {
                    if other.bytes()? != bytes {
                        return Err(Error::Differ {
                            first: first.shown.clone(),
                            second: other.shown.clone(),
                        });
                    }
                }
            }
            self.modules.push(match partial {
                Some(number) => {
                    let inner = &self.partials[*number].linked.modules;
                    inner.iter().find(|module| module.id == *id).ok_or(Error::Unexplained(*id))?.clone()
                }
                None => LinkedModule {
                    id: *id,
                    file: first.file.clone(),
                    range: first.range.clone(),
                    archive: first.archive.clone(),
                    shown: first.shown.clone(),
                    by_linker: first.by_linker,
                },
            });
            let places = objects.iter().filter(|(object, partial)| partial.is_none() && !object.by_linker);
            self.places.extend(places.map(|(object, _)| (*id, object.place.clone())));
        }
        Ok(())
    }

    /// The objects that a linker has named. If several members have one name, all of them.
    fn objects_of(&mut self, traced: &[Traced], named: &HashSet<PathBuf>) -> Result<Vec<Object>, Error> {
        // GNU ld names members of thin archives by their own paths.
        let mut of_thin: HashMap<PathBuf, (Rc<Archive>, usize)> = HashMap::new();
        let mut objects = Vec::new();
        for Traced { file, member } in traced {
            let archive = self.archive(file)?;
            match (member, archive) {
                (Some(name), Some(archive)) => {
                    // gold and mold name members of thin archives by their whole paths.
                    let path = Path::new(OsStr::from_bytes(name));
                    // lld leaves out blanks at the end.
                    let is = |member: &Member| {
                        member.name == *name
                            || member.name.trim_ascii_end() == name
                            || archive.thin && member.file == path
                    };
                    let numbers = (0..archive.members.len()).filter(|n| is(&archive.members[*n]));
                    objects.extend(numbers.map(|number| member_of(&archive, file, number)));
                }
                (Some(_), None) => {}
                (None, Some(archive)) => {
                    for number in (0..archive.members.len()).filter(|_| archive.thin) {
                        let member = (Rc::clone(&archive), number);
                        of_thin.entry(archive.members[number].file.clone()).or_insert(member);
                    }
                }
                (None, None) => match of_thin.get(file).filter(|_| !named.contains(file)) {
                    Some((archive, number)) => objects.push(member_of(archive, &archive.path, *number)),
                    None => objects.push(Object::whole(file, file.display().to_string())),
                },
            }
        }
        Ok(objects)
    }

    /// Removes members that define no symbol of the image.
    pub fn leave_out_what_is_not_in(&mut self, image: &Path) -> Result<(), Error> {
        let data = fs::read(image).map_err(Error::file(image))?;
        let names: HashSet<Vec<u8>> = elf::defined(&*data, true, "the linked file")?.into_iter().collect();
        let mut kept = Vec::new();
        let mut left_out = HashSet::new();
        for plain in std::mem::take(&mut self.plain) {
            let is_there = plain.archive.is_none() || plain.bitcode || {
                let bytes = bytes_of(&plain.file, plain.range.as_ref(), &plain.shown)?;
                let defined = elf::defined(&*bytes, false, &plain.shown)?;
                // Names with versions have other names in the image.
                defined.iter().any(|name| names.contains(name) || name.contains(&b'@'))
            };
            if is_there {
                kept.push(plain);
            } else {
                left_out.insert(plain.shown);
            }
        }
        self.plain = kept;
        self.objects.retain(|object| !left_out.contains(&object.shown));
        Ok(())
    }

    fn archive(&mut self, file: &Path) -> Result<Option<Rc<Archive>>, Error> {
        let key = canonical(file);
        if let Entry::Vacant(entry) = self.archives.entry(key.clone()) {
            let Some(archive) = Archive::read(file)? else { return Ok(None) };
            entry.insert(Rc::new(archive));
        }
        Ok(self.archives.get(&key).cloned())
    }
}

fn member_of(archive: &Archive, named: &Path, number: usize) -> Object {
    let member = &archive.members[number];
    Object {
        place: Place { file: canonical(named), member: Some(number) },
        file: member.file.clone(),
        range: member.range.clone(),
        archive: Some(archive.path.clone()),
        by_linker: false,
        name: archive.path.join(OsStr::from_bytes(&member.name)),
        shown: archive.shown(number),
    }
}

impl Object {
    /// An object that is a whole file.
    pub fn whole(file: &Path, shown: String) -> Self {
        let place = Place { file: canonical(file), member: None };
        let name = file.to_owned();
        Object { place, file: file.to_owned(), range: None, archive: None, by_linker: false, name, shown }
    }

    /// An object that the linker has made of bitcode.
    fn by_linker(file: &Path) -> Result<Self, Error> {
        let mut object = Object { by_linker: true, ..Object::whole(file, file.display().to_string()) };
        if let Some(source) = elf::source(&*object.bytes()?, &object.shown)? {
            object.shown = source;
        }
        Ok(object)
    }

    fn plain(&self, bitcode: bool) -> PlainObject {
        let Object { file, range, archive, shown, .. } = self.clone();
        PlainObject { file, range, archive, shown, bitcode }
    }

    fn look(&self) -> Result<Found, Error> {
        let file = File::open(&self.file).map_err(Error::file(&self.file))?;
        let mut start = [0; elf::START];
        // A shorter file is no object.
        let at = self.range.as_ref().map_or(0, |range| range.start);
        let is_long = file.read_exact_at(&mut start, at).is_ok();
        elf::look(if is_long { &start } else { &[] }, || self.bytes(), &self.shown)
    }

    /// Its content.
    pub fn bytes(&self) -> Result<Vec<u8>, Error> {
        bytes_of(&self.file, self.range.as_ref(), &self.shown)
    }
}

/// A part of a file, or all of it.
pub fn bytes_of(path: &Path, range: Option<&Range<u64>>, shown: &str) -> Result<Vec<u8>, Error> {
    let Some(range) = range else { return fs::read(path).map_err(Error::file(path)) };
    let file = File::open(path).map_err(Error::file(path))?;
    let damaged = || Error::Damaged { file: shown.to_owned(), cause: "it ends too early".to_owned() };
    // The range comes from the archive, which may be wrong.
    let length = file.metadata().map_err(Error::file(path))?.len();
    if range.end > length {
        return Err(damaged());
    }
    let mut bytes = vec![0; usize::try_from(range.end - range.start).map_err(|_| damaged())?];
    file.read_exact_at(&mut bytes, range.start).map_err(Error::file(path))?;
    Ok(bytes)
}
