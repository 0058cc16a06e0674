package cuda

import (
	"sync"

	"github.com/pureverbs/pureverbs/internal/ccall"
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
		h, err := ccall.Open(n, 0)
		if err == nil {
			return &library{n, h}, nil
		}
		e.Tried = append(e.Tried, Try{n, err.Error()})
	}
	return nil, e
}

// symbol returns the address of a function, which CUDA has since a release.
func (l *library) symbol(name, since string) (uintptr, error) {
	fn, err := ccall.Symbol(l.handle, name)
	if err != nil || fn == 0 {
		return 0, &SymbolError{l.name, name, since}
	}
	return fn, nil
}
