// Package cstruct compares structs of Go with those of C headers, as the compilers of both architectures lay them out.
package cstruct

import (
	"debug/dwarf"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// Compilers compile for amd64 and for arm64.
var Compilers = []string{"cc", "aarch64-linux-gnu-gcc"}

// Headers are C headers, as in "rdma/ib_user_verbs.h".
type Headers []string

// Structs returns the structs of the headers by name, without "struct ", as a compiler lays them out, and names among
// them. It skips the test if the
// compiler or the headers are not installed.
func (h Headers) Structs(t *testing.T, cc string, names []string) map[string]*dwarf.StructType {
	t.Helper()
	if _, err := exec.LookPath(cc); err != nil {
		t.Skipf("no C compiler (make setup installs gcc): %v", err)
	}
	var src strings.Builder
	for _, f := range h {
		if _, err := os.Stat("/usr/include/" + f); err != nil {
			t.Skipf("C headers are not installed (make setup installs them): %v", err)
		}
		fmt.Fprintf(&src, "#include <%s>\n", f)
	}
	for i, n := range names {
		fmt.Fprintf(&src, "struct %s v%d;\n", n, i)
	}
	d := debugInfo(t, cc, src.String())
	structs := make(map[string]*dwarf.StructType)
	for r := d.Reader(); ; {
		e, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if e == nil {
			break
		}
		if e.Tag != dwarf.TagStructType {
			continue
		}
		typ, err := d.Type(e.Offset)
		if err != nil {
			t.Fatal(err)
		}
		if s := typ.(*dwarf.StructType); !s.Incomplete {
			structs[s.StructName] = s
		}
	}
	for _, n := range names {
		if structs[n] == nil {
			t.Fatalf("%s: no struct %s", cc, n)
		}
	}
	return structs
}

// debugInfo compiles C and returns what a debugger would read.
func debugInfo(t *testing.T, cc, src string) *dwarf.Data {
	t.Helper()
	dir := t.TempDir()
	c, o := filepath.Join(dir, "s.c"), filepath.Join(dir, "s.o")
	if err := os.WriteFile(c, []byte(src), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(cc, "-g", "-fno-eliminate-unused-debug-types", "-c", "-idirafter", "/usr/include", "-o", o,
		c).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cc, err, out)
	}
	f, err := elf.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d, err := f.DWARF()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// A Mirror is a struct of Go and the name of the one of C.
type Mirror struct {
	C       string
	Go      any
	Renamed map[string]string // C's names of fields; "_": newer than the headers; "elements": one field each
	Part    bool              // it has another length than C's
}

// Check compares mirrors on both architectures. A field that has another offset, size or name than C's is an error.
// Blank fields may be anything. A name is C's, or C's without some of its letters.
func (h Headers) Check(t *testing.T, mirrors []Mirror) {
	t.Helper()
	var names []string
	for _, m := range mirrors {
		names = append(names, m.C)
	}
	for _, cc := range Compilers {
		t.Run(cc, func(t *testing.T) {
			structs := h.Structs(t, cc, names)
			for _, m := range mirrors {
				for _, p := range m.problems(structs[m.C]) {
					t.Error(p)
				}
			}
		})
	}
}

func (m *Mirror) problems(c *dwarf.StructType) (list []string) {
	typ := goType(m.Go)
	if size := int64(typ.Size()); size != c.ByteSize && !m.Part {
		list = append(list, fmt.Sprintf("struct %s has %d bytes, %v %d", m.C, c.ByteSize, typ, size))
	}
	return append(list, m.fields(members(c, 0), typ, 0)...)
}

// fields compares the fields of a struct that is at an offset of the mirror.
func (m *Mirror) fields(c []member, typ reflect.Type, base int64) (list []string) {
	for i := range typ.NumField() {
		f := typ.Field(i)
		want := f.Name
		if r, ok := m.Renamed[f.Name]; ok {
			want = r
		}
		if want == "_" {
			continue
		}
		is := within
		if slices.ContainsFunc(c, func(x member) bool { return plain(x.name) == plain(want) }) {
			is = func(name, full string) bool { return plain(name) == plain(full) }
		}
		offset, size := base+int64(f.Offset), int64(f.Type.Size())
		var at []string
		if !slices.ContainsFunc(c, func(x member) bool {
			if x.offset == offset && x.size == size {
				at = append(at, x.name)
			}
			return x.offset == offset && x.size == size && is(want, x.name)
		}) {
			switch k := f.Type.Kind(); {
			case k == reflect.Struct && len(at) == 0: // C has its fields there
				list = append(list, m.fields(c, f.Type, offset)...)
				continue
			case k == reflect.Array && want == "elements":
				for n := range int64(f.Type.Len()) {
					e := int64(f.Type.Elem().Size())
					if !slices.ContainsFunc(c, func(x member) bool { return x.offset == offset+n*e && x.size == e }) {
						list = append(list, fmt.Sprintf("struct %s has no %d bytes at %d, %v %s", m.C, e,
							offset+n*e, typ, f.Name))
					}
				}
				continue
			}
			list = append(list, fmt.Sprintf("struct %s has %v of %d bytes at %d, %v %s", m.C, at, size, offset,
				typ, f.Name))
		}
	}
	return list
}

// member is a member, also one of a struct or union in it.
type member struct {
	name         string
	offset, size int64
}

func members(s *dwarf.StructType, base int64) (list []member) {
	for _, f := range s.Field {
		list = append(list, member{f.Name, base + f.ByteOffset, f.Type.Size()})
		typ := f.Type
		for {
			d, ok := typ.(*dwarf.TypedefType)
			if !ok {
				break
			}
			typ = d.Type
		}
		if n, ok := typ.(*dwarf.StructType); ok {
			list = append(list, members(n, base+f.ByteOffset)...)
		}
	}
	return list
}

// plain returns a name without case and underscores.
func plain(name string) string { return strings.ToLower(strings.ReplaceAll(name, "_", "")) }

// within reports whether name is full without some of its letters.
func within(name, full string) bool {
	full = plain(full)
	for _, c := range plain(name) {
		_, rest, ok := strings.Cut(full, string(c))
		if !ok {
			return false
		}
		full = rest
	}
	return true
}

// goType is the type of a mirror, or of what it points to: one of atomics must not be copied.
func goType(v any) reflect.Type {
	if t := reflect.TypeOf(v); t.Kind() != reflect.Pointer {
		return t
	}
	return reflect.TypeOf(v).Elem()
}
