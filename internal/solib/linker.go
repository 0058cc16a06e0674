package solib

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// Candidates returns the files, in order, that glibc's dynamic linker finds for a soname: in
// libraryPath, the value of LD_LIBRARY_PATH, in cache, the contents of /etc/ld.so.cache, and in its
// default folders. The linker uses the first of its architecture. Folders for special processors
// are omitted.
func Candidates(soname, libraryPath string, cache []byte) []string {
	var files []string
	add := func(path string) {
		if st, err := os.Stat(path); err == nil && !st.IsDir() {
			files = append(files, path)
		}
	}
	if libraryPath != "" {
		for _, dir := range strings.FieldsFunc(libraryPath, func(r rune) bool { return r == ':' || r == ';' }) {
			add(filepath.Join(dir, soname))
		}
	}
	for _, path := range cached(soname, cache) {
		add(path)
	}
	dirs := []string{"/lib64", "/usr/lib64", "/lib", "/usr/lib"}
	if t := Triplet(); t != "" {
		dirs = append([]string{"/lib/" + t, "/usr/lib/" + t}, dirs...)
	}
	for _, dir := range dirs {
		add(dir + "/" + soname)
	}
	return files
}

// Triplet returns Debian's name of the architecture, "" if this package has none.
func Triplet() string {
	return map[string]string{"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}[runtime.GOARCH]
}

// Layout of glibc's cache (struct cache_file_new in dl-cache.h): magic and version, the number of
// entries, and entries of 24 bytes with the offsets of soname and path.
const (
	cacheMagic  = "glibc-ld.so.cache1.1"
	cacheHeader = 48
	cacheEntry  = 24
)

// cached returns the paths that the cache has for a soname. The cache may begin with one of an
// older format.
func cached(soname string, cache []byte) []string {
	i := bytes.Index(cache, []byte(cacheMagic))
	if i < 0 || len(cache)-i < cacheHeader {
		return nil
	}
	cache = cache[i:]
	text := func(off uint32) string {
		if uint64(off) >= uint64(len(cache)) {
			return ""
		}
		s, _, ok := bytes.Cut(cache[off:min(uint64(len(cache)), uint64(off)+4096)], []byte{0})
		if !ok {
			return ""
		}
		return string(s)
	}
	var paths []string
	entries := cache[cacheHeader:]
	for n := binary.NativeEndian.Uint32(cache[20:]); n > 0 && len(entries) >= cacheEntry; n-- {
		if text(binary.NativeEndian.Uint32(entries[4:])) == soname {
			if p := text(binary.NativeEndian.Uint32(entries[8:])); filepath.IsAbs(p) {
				paths = append(paths, p)
			}
		}
		entries = entries[cacheEntry:]
	}
	return paths
}
