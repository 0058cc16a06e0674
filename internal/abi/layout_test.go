package abi

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"structs"
	"testing"
)

const testdata = "../../testdata/abi"

// versions whose layouts are on file, oldest first, and the last of each
// architecture.
var versions = []string{"v17", "v25", "v44", "v44-arm64", "v65", "v65-arm64"}

// newest is the release that the mirrors mirror.
const newest = "v65"

type (
	layout  map[string]*cStruct
	cStruct struct {
		Size   int
		Align  int
		Fields map[string]cField
	}
	cField [2]int // offset, size
)

func readLayout(t testing.TB, version string) layout {
	t.Helper()
	var l layout
	readJSON(t, "layout-"+version+".json", &l)
	return l
}

func readJSON(t testing.TB, name string, v any) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(testdata, name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, v); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// mirror is a Go struct and the C struct that it mirrors. Fields correspond by
// name, without regard to case and underscores.
type mirror struct {
	c       string
	t       reflect.Type
	part    bool              // ends where the mutex is
	renamed map[string]string // C names of Go fields
	ignored []string          // C fields without a Go field: members of unions, private ones
	align   int               // if less than C's
}

func m[T any](c string) mirror { return mirror{c: c, t: reflect.TypeFor[T]()} }

// verbsMirrors are the mirrors of libibverbs' and its providers' structs.
func verbsMirrors() []mirror {
	gid := mirror{c: "union ibv_gid", t: reflect.TypeFor[GID](), align: 1, ignored: []string{"raw", "global"}}
	return append([]mirror{gid}, mirrors["layout"]...)
}

// plain is a name without what differs between C and Go.
func plain(name string) string { return strings.ToLower(strings.ReplaceAll(name, "_", "")) }

// goFields flattens a Go struct: its fields, and those of unnamed structs in it.
func (m mirror) goFields() map[string]cField {
	fields := make(map[string]cField)
	var walk func(t reflect.Type, prefix string, base uintptr)
	walk = func(t reflect.Type, prefix string, base uintptr) {
		if t.Kind() != reflect.Struct {
			return
		}
		for i := range t.NumField() {
			f := t.Field(i)
			if f.Name == "_" {
				continue
			}
			c := plain(f.Name)
			if r := m.renamed[f.Name]; r != "" {
				c = plain(r)
			}
			fields[prefix+c] = cField{int(base + f.Offset), int(f.Type.Size())}
			if f.Type.Kind() == reflect.Struct && f.Type.Name() == "" {
				walk(f.Type, prefix+c+".", base+f.Offset)
			}
		}
	}
	walk(m.t, "", 0)
	return fields
}

// compare lists where the mirror and a release differ. The newest release must
// have the same struct, an older one the same start of it.
func (m mirror) compare(l layout, isNewest bool) (problems []string) {
	bad := func(format string, args ...any) {
		problems = append(problems, m.c+": "+fmt.Sprintf(format, args...))
	}
	c := l[m.c]
	if c == nil {
		if isNewest {
			bad("is not in the newest release")
		}
		return problems
	}
	size := c.Size
	if m.part {
		size = c.Fields["mutex"][0]
	}
	goSize := int(m.t.Size())
	if goSize < size || isNewest && goSize != size {
		bad("the size is %d, in C %d", goSize, size)
	}
	if align := max(m.align, m.t.Align()); m.align == 0 && (align > c.Align || isNewest && align != c.Align) {
		bad("the alignment is %d, in C %d", m.t.Align(), c.Align)
	}

	goFields := m.goFields()
	inC := make(map[string]bool)
	for name, f := range c.Fields {
		if name == "reserved" { // a field of a later release lies there
			continue
		}
		inC[plain(name)] = true
		if slices.Contains(m.ignored, name) || m.part && f[0] >= size {
			continue
		}
		g, ok := goFields[plain(name)]
		switch outer, _, nested := strings.Cut(name, "."); {
		case !ok && nested && !hasNested(goFields, plain(outer)):
			// A union in C, a word in Go.
		case !ok:
			bad("%s has no Go field", name)
		case g != f:
			bad("%s is at %d with %d bytes, in C at %d with %d", name, g[0], g[1], f[0], f[1])
		}
	}
	for name, g := range goFields {
		if inC[name] {
			continue
		}
		if isNewest {
			bad("the Go field %s is not in C", name)
		}
		// A field that came later must not lie on one that was there before.
		for old, f := range c.Fields {
			if old != "reserved" && g[0] < f[0]+f[1] && f[0] < g[0]+g[1] {
				bad("the newer field %s lies on %s", name, old)
			}
		}
	}
	slices.Sort(problems)
	return problems
}

func hasNested(fields map[string]cField, outer string) bool {
	for name := range fields {
		if strings.HasPrefix(name, outer+".") {
			return true
		}
	}
	return false
}

// hostLayout lists what makes a struct unfit to be shared with C.
func hostLayout(t reflect.Type) (problems []string) {
	switch t.Kind() {
	case reflect.Struct:
		if t == reflect.TypeFor[structs.HostLayout]() {
			return nil
		}
		if t.NumField() == 0 || t.Field(0).Type != reflect.TypeFor[structs.HostLayout]() {
			problems = append(problems, t.String()+" does not begin with structs.HostLayout")
		}
		for i := range t.NumField() {
			problems = append(problems, hostLayout(t.Field(i).Type)...)
		}
	case reflect.Array:
		return hostLayout(t.Elem())
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Int32, reflect.Int64, reflect.Uintptr:
	default:
		problems = append(problems, t.String()+" is not a type of fixed width")
	}
	return problems
}

func TestLayouts(t *testing.T) {
	for _, v := range versions {
		t.Run(v, func(t *testing.T) {
			l := readLayout(t, v)
			seen := 0
			for _, m := range verbsMirrors() {
				if l[m.c] != nil {
					seen++
				}
				for _, p := range m.compare(l, strings.HasPrefix(v, newest)) {
					t.Error(p)
				}
			}
			t.Logf("%d of %d structs are in %s", seen, len(verbsMirrors()), v)
		})
	}
}

// TestKernelLayouts: the kernel's structs have one layout for all releases and architectures, to which fields are added
// at the end.
func TestKernelLayouts(t *testing.T) {
	var l layout
	readJSON(t, "uapi-v65.json", &l)
	if len(mirrors["uapi"]) < len(l) {
		t.Errorf("%d structs are on file, %d mirrored", len(l), len(mirrors["uapi"]))
	}
	for _, m := range mirrors["uapi"] {
		m.align = m.t.Align() // that of the mirrors in it may be greater
		for _, p := range m.compare(l, true) {
			t.Error(p)
		}
	}
}

func TestHostLayout(t *testing.T) {
	for _, m := range append(verbsMirrors(), mirrors["uapi"]...) {
		for _, p := range hostLayout(m.t) {
			t.Errorf("%s: %s", m.c, p)
		}
	}
}

// TestCheckerFindsMistakes is the control: wrong mirrors of struct ibv_sge.
func TestCheckerFindsMistakes(t *testing.T) {
	type swapped struct {
		_      structs.HostLayout
		Addr   uint64
		LKey   uint32
		Length uint32
	}
	type narrow struct {
		_      structs.HostLayout
		Addr   uint64
		Length uint16
		_      [2]byte
		LKey   uint32
	}
	type short struct {
		_      structs.HostLayout
		Addr   uint64
		Length uint32
		_      [4]byte
	}
	type long struct {
		_      structs.HostLayout
		Addr   uint64
		Length uint32
		LKey   uint32
		More   uint64
	}
	type loose struct {
		_      structs.HostLayout
		Addr   [2]uint32
		Length uint32
		LKey   uint32
	}
	type shared struct {
		Addr   uint64
		Length uint32
		LKey   *uint32
	}
	l := readLayout(t, newest)
	const sge = "struct ibv_sge"
	for _, c := range []struct {
		m    mirror
		want string
	}{
		{m[swapped](sge), "lkey is at 8 with 4 bytes, in C at 12 with 4"},
		{m[narrow](sge), "length is at 8 with 2 bytes, in C at 8 with 4"},
		{m[short](sge), "lkey has no Go field"},
		{m[long](sge), "the size is 24, in C 16"},
		{m[long](sge), "the Go field more is not in C"},
		{m[loose](sge), "the alignment is 4, in C 8"},
		{m[SGE]("struct ibv_no_such"), "is not in the newest release"},
	} {
		if got := c.m.compare(l, true); !slices.Contains(got, c.m.c+": "+c.want) {
			t.Errorf("%v: found %q, not %q", c.m.t, got, c.want)
		}
	}
	if got := hostLayout(reflect.TypeFor[shared]()); len(got) != 2 {
		t.Errorf("a struct with a pointer and without HostLayout: found %q, want two problems", got)
	}
	// A release that moved a field, and one that used a place that ours uses.
	moved := layout{sge: {Size: 16, Align: 8, Fields: map[string]cField{"addr": {0, 8}, "length": {12, 4},
		"lkey": {8, 4}}}}
	if got := m[SGE](sge).compare(moved, false); len(got) != 2 {
		t.Errorf("an older release with other offsets: found %q", got)
	}
	used := layout{sge: {Size: 16, Align: 8, Fields: map[string]cField{"addr": {0, 8}, "length": {8, 4},
		"cookie": {12, 4}}}}
	if got := m[SGE](sge).compare(used, false); !slices.Contains(got, sge+": the newer field lkey lies on cookie") {
		t.Errorf("an older release with another field: found %q", got)
	}
}
