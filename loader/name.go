package loader

import "strings"

// Name is a library, by its soname.
type Name string

// The libraries that this module knows.
const (
	IBVerbs Name = "libibverbs.so.1"
	RDMACM  Name = "librdmacm.so.1"
	MLX5    Name = "libmlx5.so.1"
)

// Names lists the libraries that this module knows.
func Names() []Name { return []Name{IBVerbs, RDMACM, MLX5} }

// stem is the soname up to ".so".
func (n Name) stem() string {
	s, _, _ := strings.Cut(string(n), ".so")
	return s
}

// of tells whether a file is a copy of the library, by its base name:
// libmlx5.so.1.24.44.0 and libmlx5-rdmav34.so are both libmlx5.
func (n Name) of(base string) bool {
	rest, ok := strings.CutPrefix(base, n.stem())
	return ok && (strings.HasPrefix(rest, ".so") || strings.HasPrefix(rest, "-rdmav") && strings.Contains(rest, ".so"))
}

// version takes apart the base name of the library's file, as in
// libibverbs.so.1.14.44.0: 14 is the level of the ABI, 44.0 the package's version.
func (n Name) version(base string) (level, pkg string) {
	rest, ok := strings.CutPrefix(base, string(n)+".")
	if !ok {
		return "", ""
	}
	level, pkg, _ = strings.Cut(rest, ".")
	return level, pkg
}
