//go:build !pureverbs_native

package cuda

import (
	"errors"
	"runtime"
	"strings"
	"sync"

	"github.com/ebitengine/purego"
)

// names are where the library is looked for; tests have others.
var names = []string{"libcuda.so.1", "libcuda.so"}

// library is CUDA's driver library.
type library struct {
	name   string
	handle uintptr
}

// open opens the library, once.
var open = sync.OnceValues(search)

func search() (*library, error) {
	e := &LibraryError{}
	for _, n := range names {
		h, err := dlopen(n)
		if err == nil {
			return &library{n, h}, nil
		}
		e.Tried = append(e.Tried, Try{n, err.Error()})
	}
	return nil, e
}

func dlopen(name string) (uintptr, error) {
	// The text of the error belongs to the thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	h, err := purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return 0, errors.New(strings.TrimPrefix(err.Error(), name+": "))
	}
	return h, nil
}

// symbol returns the address of a function, which CUDA has since a release.
func (l *library) symbol(name, since string) (uintptr, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	fn, err := purego.Dlsym(l.handle, name)
	if err != nil || fn == 0 {
		return 0, &SymbolError{l.name, name, since}
	}
	return fn, nil
}
