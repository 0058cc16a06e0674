//go:build !linux

package cuda

import "runtime"

type library struct{}

func open() (*library, error) {
	return nil, &LibraryError{Tried: []Try{{"libcuda.so.1", "not on " + runtime.GOOS}}}
}

func (l *library) symbol(name, since string) (uintptr, error) {
	return 0, &SymbolError{"libcuda.so.1", name, since}
}
