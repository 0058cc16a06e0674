package loader

import (
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/pureverbs/pureverbs/internal/ccall"
)

// Library is an open library. It is never closed and safe for concurrent use.
type Library struct {
	name   Name
	handle uintptr
	found  string // the soname or path that was opened
	path   string // the file that was loaded
	real   string // path without symbolic links
	soname string

	symbols sync.Map // string → symbol
	mu      sync.Mutex
	missing []string // symbols that were looked up, in order
}

type symbol struct {
	addr uintptr
	err  error
}

var opened struct {
	sync.Mutex
	libs map[Name]*Library
}

// Open opens a library once; later calls return the same Library. Failures are not remembered, so
// Open may be called again. The error is a *LibraryError or an *InstanceError.
//
// The others use libibverbs, which Open opens before them. libmlx5 and libefa are the files that
// libibverbs loaded as its drivers. That happens when devices are first listed, so list devices
// before opening them.
func Open(name Name) (*Library, error) {
	opened.Lock()
	defer opened.Unlock()
	return open(name)
}

// Preconditions: opened is locked.
func open(name Name) (*Library, error) {
	if l := opened.libs[name]; l != nil {
		if name.driver() {
			// Listing devices may have loaded a second copy since.
			if err := soleInstance(name); err != nil {
				return nil, err
			}
		}
		return l, nil
	}
	if name == RDMACM || name.driver() {
		// The linker uses a libibverbs that is already loaded, from whatever place.
		if _, err := open(IBVerbs); err != nil {
			return nil, err
		}
	}
	l, err := load(name)
	if err != nil {
		return nil, err
	}
	if opened.libs == nil {
		opened.libs = make(map[Name]*Library)
	}
	opened.libs[name] = l
	setPath.Lock()
	setPath.opened = true
	setPath.Unlock()
	return l, nil
}

// Name returns the library's soname as this module knows it.
func (l *Library) Name() Name { return l.name }

// Path returns the file that was loaded.
func (l *Library) Path() string { return l.path }

// Version returns the version of the library's package, taken from the file name ("44.0"). It is
// empty if the name has none.
func (l *Library) Version() string {
	_, v := l.name.version(filepath.Base(l.real))
	return v
}

// Symbol returns the address of a function. The error is a *SymbolError, the same for every call
// with that name.
func (l *Library) Symbol(name string) (uintptr, error) {
	if s, ok := l.symbols.Load(name); ok {
		s := s.(symbol)
		return s.addr, s.err
	}
	addr, ok := l.lookup(name)
	s := symbol{addr: addr}
	if !ok {
		s.err = &SymbolError{Symbol: name, Library: l.name, Path: l.real, Version: l.Version(),
			Since: since(l.name, name)}
	}
	kept, loaded := l.symbols.LoadOrStore(strings.Clone(name), s)
	if !ok && !loaded && possible(name) {
		l.mu.Lock()
		l.missing = append(l.missing, name)
		l.mu.Unlock()
	}
	s = kept.(symbol)
	return s.addr, s.err
}

// lookup asks the dynamic linker.
func (l *Library) lookup(name string) (uintptr, bool) {
	if !possible(name) {
		return 0, false
	}
	addr, err := ccall.Symbol(l.handle, name)
	return addr, err == nil && addr != 0
}

// possible reports whether name can be the name of a symbol. C would truncate it at a zero byte.
func possible(name string) bool { return name != "" && strings.IndexByte(name, 0) < 0 }

// asked returns the symbols that were looked up and are missing.
func (l *Library) asked() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.missing)
}
