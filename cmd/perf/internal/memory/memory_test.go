package memory

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestMapFile maps a part of a file, which gets what is written.
func TestMapFile(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows maps no file here")
	}
	page := os.Getpagesize()
	dir := t.TempDir()
	name := filepath.Join(dir, "memory")
	if err := os.WriteFile(name, make([]byte, 3*page), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := mapFile(name, int64(page), 2*page)
	if err != nil {
		t.Fatal(err)
	}
	want := []byte("as it was sent")
	got := make([]byte, len(want))
	if _, err := p.WriteAt(want, 10); err != nil {
		t.Error(err)
	}
	if _, err := p.ReadAt(got, 10); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := p.WriteAt(want, int64(2*page-5)); err != io.ErrShortWrite {
		t.Errorf("a write beyond the end: %v", err)
	}
	if _, err := p.ReadAt(got, -1); err != io.ErrUnexpectedEOF {
		t.Errorf("a read before the beginning: %v", err)
	}
	if err := p.free(); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(name); err != nil || !bytes.Equal(b[page+10:][:len(want)], want) {
		t.Errorf("the file does not have it: %v", err)
	}
	for _, tt := range []struct {
		name string
		off  int64
		want string
	}{
		{filepath.Join(dir, "none"), 0, "it cannot be opened: open "},
		{dir, 0, "is a directory"},
		{name, int64(2 * page), "lengthen it: truncate -s "},
		{name, 100, "not a multiple of the page"},
		{"/dev/null", 0, "it cannot be mapped"},
	} {
		_, err := mapFile(tt.name, tt.off, 2*page)
		var fe *FileError
		if !errors.As(err, &fe) || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s from %d: %v, want %q", tt.name, tt.off, err, tt.want)
		}
	}
}

// fakeGPU is a GPU whose memory is ours.
type fakeGPU struct {
	mem             []byte
	dmabuf, none    bool
	allocated, open int
}

var errFull = errors.New("out of memory")

func (g *fakeGPU) Name() string          { return "Fake" }
func (g *fakeGPU) Dmabuf() (bool, error) { return g.dmabuf, nil }
func (g *fakeGPU) Close() error          { g.open--; return nil }
func (g *fakeGPU) Free(uint64) error     { g.allocated--; return nil }

func (g *fakeGPU) Alloc(size int) (uint64, error) {
	if g.none {
		return 0, errFull
	}
	g.allocated++
	g.mem = make([]byte, size)
	return 1 << 40, nil
}

func (g *fakeGPU) Write(ptr uint64, b []byte) error { copy(g.mem[ptr-1<<40:], b); return nil }
func (g *fakeGPU) Read(b []byte, ptr uint64) error  { copy(b, g.mem[ptr-1<<40:]); return nil }

func (g *fakeGPU) Export(uint64, int) (int, error) { return -1, errors.ErrUnsupported }

func TestGPU(t *testing.T) {
	g := &fakeGPU{open: 1}
	p, err := allocGPU(g, 100, false, false)
	if err != nil || len(g.mem) != gpuPage || p.bytes() != nil {
		t.Fatalf("%v, %d bytes", err, len(g.mem))
	}
	want, got := []byte{1, 2, 3}, make([]byte, 3)
	if _, err := p.WriteAt(want, 50); err != nil {
		t.Error(err)
	}
	if n, err := p.ReadAt(got, 50); n != 3 || err != nil || !bytes.Equal(got, want) ||
		!bytes.Equal(g.mem[50:53], want) {
		t.Errorf("%v, %v", got, err)
	}
	for _, off := range []int64{-1, gpuPage - 2, gpuPage + 1} {
		if _, err := p.WriteAt(want, off); err != io.ErrShortWrite {
			t.Errorf("a write at %d: %v", off, err)
		}
		if _, err := p.ReadAt(got, off); err != io.ErrUnexpectedEOF {
			t.Errorf("a read at %d: %v", off, err)
		}
	}
	if err := p.free(); err != nil || g.open != 0 || g.allocated != 0 {
		t.Errorf("%v, left %+v", err, g)
	}
	for _, tt := range []struct {
		gpu    *fakeGPU
		dmabuf bool
		err    error
		want   string
	}{
		{&fakeGPU{open: 1}, true, nil, "makes no dma-buf; leave out --use-cuda-dmabuf and load nvidia_peermem"},
		{&fakeGPU{open: 1, none: true}, false, errFull, "65536 bytes: out of memory; a smaller size (-s)"},
		{&fakeGPU{open: 1, none: true, dmabuf: true}, true, errFull, "fewer queue pairs (-q)"},
	} {
		_, err := allocGPU(tt.gpu, 100, tt.dmabuf, false)
		var ge *GPUError
		if !errors.As(err, &ge) || tt.err != nil && !errors.Is(err, tt.err) ||
			!strings.Contains(err.Error(), tt.want) || tt.gpu.open != 0 || tt.gpu.allocated != 0 {
			t.Errorf("%v, want %q; left %+v", err, tt.want, tt.gpu)
		}
	}
}
