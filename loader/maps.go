package loader

import (
	"path/filepath"
	"strings"
)

// mappedIn returns the files in maps, the text of /proc/self/maps, that are copies of a library,
// each once.
func mappedIn(name Name, maps string) []string {
	var files []string
	seen := make(map[string]bool)
	for line := range strings.Lines(maps) {
		f := strings.Fields(line) // address perms offset dev inode path
		if len(f) < 6 || f[5][0] != '/' {
			continue
		}
		path := strings.TrimRight(line[strings.IndexByte(line, '/'):], "\n") // it may have spaces
		if !name.of(filepath.Base(path)) {
			continue
		}
		if key := f[3] + " " + f[4]; !seen[key] {
			seen[key] = true
			files = append(files, path)
		}
	}
	return files
}
