package agent

import (
	"os"
	"strings"
	"syscall"
	"testing"
)

// TestToken_Stdin reads the token from what sshd may make standard input: a pipe, or a socket, which has no name that
// can be opened. It is there as soon as its line ends, and may be followed by anything.
func TestToken_Stdin(t *testing.T) {
	t.Setenv(TokenEnv, "")
	stdin := os.Stdin
	defer func() { os.Stdin = stdin }()
	for name, ends := range map[string]func() (r, w *os.File){
		"pipe": func() (*os.File, *os.File) {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			return r, w
		},
		"socket": func() (*os.File, *os.File) {
			fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
			if err != nil {
				t.Fatal(err)
			}
			return os.NewFile(uintptr(fds[0]), "socket"), os.NewFile(uintptr(fds[1]), "socket")
		},
	} {
		for _, tt := range []struct {
			file, text string
			closes     bool
			want       string
		}{
			{"-", "0123456789abcdef", true, ""}, {"/dev/stdin", "0123456789abcdef", true, ""},
			{"-", "0123456789abcdef\nx", false, ""}, {"-", "short\n", false, "5 bytes in standard input"},
			{"-", "", true, "no token"}, {"-", strings.Repeat("x", 2000), false, "1025 bytes"},
		} {
			r, w := ends()
			os.Stdin = r
			if _, err := w.WriteString(tt.text); err != nil {
				t.Fatal(err)
			}
			if tt.closes {
				w.Close()
			}
			tok, err := ReadToken(tt.file)
			if tt.want == "" && (err != nil || string(tok.secret) != string(good.secret)) ||
				tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("%s, %q: %q, %v, want %q", name, tt.text, tok.secret, err, tt.want)
			}
			r.Close()
			w.Close()
		}
	}
}
