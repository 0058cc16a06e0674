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
		// address perms offset dev inode path
		rest := strings.TrimRight(line, "\n")
		var dev, inode string
		for i := range 5 {
			var field string
			field, rest, _ = strings.Cut(strings.TrimLeft(rest, " "), " ")
			switch i {
			case 3:
				dev = field
			case 4:
				inode = field
			}
		}
		path := strings.TrimLeft(rest, " ")
		if !strings.HasPrefix(path, "/") || !name.of(filepath.Base(path)) {
			continue
		}
		if key := dev + " " + inode; !seen[key] {
			seen[key] = true
			files = append(files, path)
		}
	}
	return files
}
