package loader

import "strings"

// Name is the soname of a library.
type Name string

// The libraries that this module uses.
const (
	IBVerbs Name = "libibverbs.so.1"
	RDMACM  Name = "librdmacm.so.1"
	MLX5    Name = "libmlx5.so.1"
	EFA     Name = "libefa.so.1"
)

// Names returns the libraries that this module uses.
func Names() []Name { return []Name{IBVerbs, RDMACM, MLX5, EFA} }

// driver reports whether libibverbs loads the library as a driver. A second copy does not recognise
// the devices of the first.
func (n Name) driver() bool { return n == MLX5 || n == EFA }

// stem returns the soname up to ".so".
func (n Name) stem() string {
	s, _, _ := strings.Cut(string(n), ".so")
	return s
}

// of reports whether a file is a copy of the library, by its base name: libmlx5.so.1.24.44.0 and
// libmlx5-rdmav34.so are both libmlx5.
func (n Name) of(base string) bool {
	rest, ok := strings.CutPrefix(base, n.stem())
	return ok && (strings.HasPrefix(rest, ".so") || strings.HasPrefix(rest, "-rdmav") && strings.Contains(rest, ".so"))
}

// version splits the base name of the library's file. In libibverbs.so.1.14.44.0, 14 is the ABI
// level and 44.0 the package version.
func (n Name) version(base string) (level, pkg string) {
	rest, ok := strings.CutPrefix(base, string(n)+".")
	if !ok {
		return "", ""
	}
	level, pkg, _ = strings.Cut(rest, ".")
	return level, pkg
}
