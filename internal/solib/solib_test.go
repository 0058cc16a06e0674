package solib

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// library is a shared library of one segment of 200 bytes at offset 100.
func library() []byte {
	b := make([]byte, 300)
	copy(b, "\x7fELF")
	b[4], b[5] = class64, dataLittle
	le := binary.LittleEndian
	le.PutUint16(b[16:], typeShared)
	le.PutUint16(b[18:], machines[runtime.GOARCH])
	le.PutUint64(b[32:], headerSize)
	le.PutUint16(b[54:], progSize)
	le.PutUint16(b[56:], 1)
	p := b[headerSize:]
	le.PutUint32(p, segLoad)
	le.PutUint64(p[8:], 100)
	le.PutUint64(p[32:], 200)
	return b
}

func TestCheck(t *testing.T) {
	if bigEndian() || machines[runtime.GOARCH] == 0 {
		t.Skip("SKIPPED: the table below is for 64-bit, little-endian machines")
	}
	le := binary.LittleEndian
	other := map[string]uint16{"amd64": 183, "arm64": 62}[runtime.GOARCH]
	for _, tt := range []struct {
		name  string
		edit  func(b []byte) []byte
		want  string
		fatal bool
	}{
		{"good", func(b []byte) []byte { return b }, "", false},
		{"empty", func(b []byte) []byte { return nil }, "is empty", false},
		{"text", func(b []byte) []byte { return []byte("INPUT(-libverbs)\n") },
			`is not an ELF file: it begins with "INPUT(-l"`,
			false},
		{"one byte", func(b []byte) []byte { return b[:1] }, "is not an ELF file", false},
		{"header cut off", func(b []byte) []byte { return b[:63] },
			"is cut off: it has 63 bytes, the header of a library has 64",
			true},
		{"program headers cut off", func(b []byte) []byte { return b[:119] },
			"is cut off: 119 bytes, its program headers end at 120", true},
		{"segment cut off", func(b []byte) []byte { return b[:299] }, "is cut off: 299 bytes, its segments end at 300",
			true},
		{"32 bits", func(b []byte) []byte { b[4] = 1; le.PutUint16(b[18:], 3); return b },
			"is for 32 bits (386)", false},
		{"other machine", func(b []byte) []byte { le.PutUint16(b[18:], other); return b }, "; this program is for " +
			runtime.GOARCH, false},
		{"unknown machine", func(b []byte) []byte { le.PutUint16(b[18:], 9999); return b },
			"is for machine 9999", false},
		{"byte order", func(b []byte) []byte { b[5] = 7; return b }, "byte order 7", false},
		{"program", func(b []byte) []byte { le.PutUint16(b[16:], 2); return b },
			"not a shared library (ELF type 2)", false},
		{"no headers", func(b []byte) []byte { le.PutUint16(b[56:], 0); return b }, "is damaged", false},
		{"headers far away", func(b []byte) []byte { le.PutUint64(b[32:], 1<<63+5); return b }, "is cut off", true},
		{"segment far away", func(b []byte) []byte { le.PutUint64(b[headerSize+8:], ^uint64(0)-3); return b },
			"is cut off",
			true},
		{"segment too long", func(b []byte) []byte { le.PutUint64(b[headerSize+32:], ^uint64(0)); return b },
			"is cut off",
			true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "lib.so")
			if err := os.WriteFile(path, tt.edit(library()), 0o644); err != nil {
				t.Fatal(err)
			}
			err := Check(path)
			if tt.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			var fe *FileError
			if !errors.As(err, &fe) || fe.Path != path || !strings.Contains(fe.Problem, tt.want) ||
				fe.Fatal != tt.fatal ||
				fe.Absent {
				t.Errorf("%+v, want %q, fatal %t", err, tt.want, tt.fatal)
			}
		})
	}
	var fe *FileError
	if err := Check(t.TempDir()); !errors.As(err, &fe) || fe.Problem != "is a directory" {
		t.Errorf("a directory: %v", err)
	}
	if err := Check("/no/such/lib.so"); !errors.As(err, &fe) || !fe.Absent {
		t.Errorf("nothing: %v", err)
	}
}

// Every file that is loaded into this program passes.
func TestCheck_Own(t *testing.T) {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Skipf("SKIPPED: %v", err)
	}
	seen := 0
	for line := range strings.Lines(string(maps)) {
		i := strings.IndexByte(line, '/')
		if path := strings.TrimSpace(line[max(i, 0):]); i >= 0 && strings.Contains(filepath.Base(path), ".so") {
			seen++
			if err := Check(path); err != nil {
				t.Error(err)
			}
		}
	}
	t.Logf("%d mappings", seen)
}

func FuzzCheck(f *testing.F) {
	f.Add(library())
	f.Add(library()[:100])
	path := filepath.Join(f.TempDir(), "lib.so")
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		_ = Check(path)
	})
}

// cache is one as ldconfig writes it.
func cache(entries ...string) []byte {
	b := make([]byte, cacheHeader+cacheEntry*len(entries)/2)
	copy(b, cacheMagic)
	binary.NativeEndian.PutUint32(b[20:], uint32(len(entries)/2))
	for i, s := range entries {
		binary.NativeEndian.PutUint32(b[cacheHeader+i/2*cacheEntry+4+i%2*4:], uint32(len(b)))
		b = append(append(b, s...), 0)
	}
	return b
}

func TestCandidates(t *testing.T) {
	dir := t.TempDir()
	for _, f := range []string{"a/libx.so.1", "b/libx.so.1", "c/libx.so.1.2"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, f)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, f), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c := cache("liby.so.1", dir+"/c/liby.so.1", "libx.so.1", dir+"/b/libx.so.1", "libx.so.1", dir+"/gone/libx.so.1",
		"libx.so.1", "relative")
	got := Candidates("libx.so.1", dir+"/none:"+dir+"/a;", append([]byte("ld.so-1.7.0 and what it holds"), c...))
	if want := []string{dir + "/a/libx.so.1", dir + "/b/libx.so.1"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for n := range len(c) {
		// Cut off anywhere: fewer, no panic.
		if got := cached("libx.so.1", c[:n]); len(got) > 2 {
			t.Errorf("%d bytes of the cache give %q", n, got)
		}
	}
}

// What the cache of this host has, the linker would take.
func TestCandidates_Host(t *testing.T) {
	c, err := os.ReadFile("/etc/ld.so.cache")
	if err != nil {
		t.Skipf("SKIPPED, no glibc: %v", err)
	}
	files := Candidates("libc.so.6", "", c)
	if len(files) == 0 || !slices.ContainsFunc(files, func(f string) bool { return Check(f) == nil }) {
		t.Errorf("libc.so.6 is at %q", files)
	}
}
