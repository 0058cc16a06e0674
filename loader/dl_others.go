//go:build !linux || pureverbs_native

package loader

func load(name Name) (*Library, error) {
	return nil, &LibraryError{Name: name,
		Tried: []Try{{string(name), "this program is static"}}, Hint: "build it without the tag pureverbs_native"}
}

func soleInstance(Name) error { return nil }

func mapped(Name) []string { return nil }
