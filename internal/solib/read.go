package solib

import (
	"errors"
	"io"
	"io/fs"
	"os"
)

// maxFile is the maximum number of bytes read from a file.
const maxFile = 64 << 20

// ReadFile reads a regular file of up to 64 MiB. Without a free file descriptor it fails, where
// os.ReadFile may end the process.
func ReadFile(path string) ([]byte, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "read", Path: path, Err: errors.New("not a regular file")}
	}
	f, err := open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxFile))
}
