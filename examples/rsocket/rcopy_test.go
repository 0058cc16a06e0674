package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pureverbs/pureverbs/examples/program"
)

func TestParseCopy(t *testing.T) {
	for args, want := range map[string]string{
		"file":                                "1 argument: want FILE and HOST:NAME, or none",
		"file host more":                      "3 arguments",
		"file :name":                          `":name" has no host`, // is no server
		"file h:" + strings.Repeat("x", 4097): "a name of 4097 bytes: want at most 4096",
		"file host --timeout 0s":              "--timeout 0s: want more than 0",
		"file host -B 2000000000":             "-B 2000000000: want 0 to",
	} {
		if err := parse("rcopy", strings.Fields(args)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("rcopy %s: %v, want %q", args, err, want)
		}
	}
	for in, want := range map[string][2]string{
		"host": {"host", "file"}, "host:a:b": {"host", "a:b"},
		"[fe80::1]:a": {"fe80::1", "a"}, "[fe80::1]": {"fe80::1", "file"},
	} {
		err := parse("rcopy", []string{"below/file", in})
		if err != nil || flags.Server != want[0] || flags.dest != want[1] || flags.source != "below/file" {
			t.Errorf("%s is %q, %q (%v)", in, flags.Server, flags.dest, err)
		}
	}
}

// conn is a client that has said everything.
type conn struct {
	io.Reader
	bytes.Buffer // what the server replies
}

func (c *conn) Read(b []byte) (int, error) { return c.Reader.Read(b) }

// TestReceive gives a server what a client must not say.
func TestReceive(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	raw := func(version, kind byte, length int) string {
		b := make([]byte, headerSize)
		b[0], b[1] = version, kind
		binary.NativeEndian.PutUint16(b[2:], uint16(length))
		return string(b)
	}
	say := func(c command, rest []byte) string {
		var b bytes.Buffer
		c.send(&b, rest)
		return b.String()
	}
	noCommand := func(version, length int) error {
		return fmt.Errorf("a command of version %d with %d bytes, "+
			"want version 0 and 16 to 4120 bytes: the peer is no rcopy", version, length)
	}
	size := func(n int64) []byte { return binary.NativeEndian.AppendUint64(nil, uint64(n)) }
	openNamed := func(s string) string { return say(command{Kind: openFile, Data: 0o600}, append([]byte(s), 0)) }
	open, write := openNamed("a"), say(command{Kind: writeFile}, size(3))
	for _, tt := range []struct {
		name  string
		says  string
		want  error
		errno syscall.Errno // of the last reply
	}{
		{"nothing", "", io.EOF, 0},
		{"a file", open + write + "abc", io.EOF, 0},
		{"another version", raw(1, openFile, headerSize), noCommand(1, headerSize), 0},
		{"too short", raw(0, openFile, 3), noCommand(0, 3), 0},
		{"too long", raw(0, openFile, 9999), noCommand(0, 9999), 0},
		{"unknown", say(command{Kind: 9}, nil), errOrder, syscall.EINVAL},
		{"no file", write, errOrder, syscall.EINVAL},
		{"two files", open + open, errOrder, syscall.EINVAL},
		{"two sizes", open + say(command{Kind: writeFile}, append(size(3), 0)) + "abc", errOrder, syscall.EINVAL},
		{"negative size", open + say(command{Kind: writeFile}, size(-1)), errOrder, syscall.EINVAL},
		{"no size", open + say(command{Kind: writeFile}, nil), errOrder, syscall.EINVAL},
		{"too few bytes", open + write + "ab", io.ErrUnexpectedEOF, syscall.EINVAL},
		{"elsewhere", openNamed("../a"), nil, syscall.EINVAL},
		{"an escape", openNamed("\x1b[2J") + write + "abc", io.EOF, 0},
		{"an escape nowhere", openNamed("b/\x1b[2J"), syscall.ENOENT, syscall.ENOENT},
		{"nowhere", openNamed("b/a"), syscall.ENOENT, syscall.ENOENT},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := &conn{Reader: strings.NewReader(tt.says)}
			var out bytes.Buffer
			err := program.Do(t.Context(), &out, func(r *program.Run) {
				for {
					receive(c, root, r)
				}
			})
			if text := fmt.Sprint(&out, err); strings.Contains(text, "\x1b") {
				t.Errorf("it prints %q", text)
			}
			switch {
			case tt.name == "elsewhere":
				if err == nil || errors.Is(err, io.EOF) {
					t.Error("written")
				}
			case !errors.Is(err, tt.want) && fmt.Sprint(err) != fmt.Sprint(tt.want):
				t.Errorf("got %v, want %v", err, tt.want)
			}
			var last uint32
			for b := c.Buffer.Bytes(); len(b) >= headerSize; b = b[headerSize:] {
				last = binary.NativeEndian.Uint32(b[4:])
			}
			if last != uint32(tt.errno) {
				t.Errorf("the reply is %v, want %v", syscall.Errno(last), tt.errno)
			}
		})
	}
	if b, err := os.ReadFile(filepath.Join(dir, "a")); err != nil {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(dir), "a")); err == nil {
		t.Error("there is a file outside the directory")
	}
}

// TestStoreFails: a file that cannot be written does not keep the client from sending all, and then from reading why.
func TestStoreFails(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name) // to read
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sent := strings.NewReader(strings.Repeat("x", 1<<20) + "the next command")
	if _, err := store(f, sent, 1<<20); !errors.Is(err, syscall.EBADF) {
		t.Errorf("got %v, want %v", err, syscall.EBADF)
	}
	if rest, _ := io.ReadAll(sent); string(rest) != "the next command" {
		t.Errorf("%d bytes are left", len(rest))
	}
}
