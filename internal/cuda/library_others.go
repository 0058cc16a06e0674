//go:build !linux || pureverbs_native

package cuda

import "runtime"

type library struct{}

func open() (*library, error) {
	why := "not on " + runtime.GOOS
	if runtime.GOOS == "linux" {
		why = "this program is static: build it without the tag pureverbs_native"
	}
	return nil, &LibraryError{Tried: []Try{{"libcuda.so.1", why}}}
}

func (l *library) symbol(name, since string) (uintptr, error) {
	return 0, &SymbolError{"libcuda.so.1", name, since}
}
