//go:build !linux

package loader

func dlsym(uintptr, string) (uintptr, bool) { return 0, false }

func load(name Name) (*Library, error) { return nil, &LibraryError{Name: name} }

func soleInstance(Name) error { return nil }

func mapped(Name) []string { return nil }
