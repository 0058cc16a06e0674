//go:build pureverbs_native

package ibv

// static is whether the program can load no library.
const static = true

// library fails: a program that is built with the tag pureverbs_native is static, and can load no library.
func library() (*verbs, error) {
	return nil, &UnsupportedError{Feature: "libibverbs", Need: "a program built without the tag pureverbs_native",
		Have: "a static program"}
}
