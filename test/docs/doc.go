// Package docs tests README.md and the pages in docs.
//
// All code of README.md, docs and the pages that codePages lists is compiled and run. A fenced block is literally in
// its page, and an HTML comment on the line in front of it says where the same text is compiled:
//
//	<!-- code: NAME -->           the lines between "// doc: NAME" and "// end" in a file below test/docs/code,
//	                              test/docs/testdata, examples or deploy, without their common indentation. Several
//	                              such pieces are joined. In YAML and shell files the markers begin with "#".
//	<!-- code: hello/main.go -->  the whole file test/docs/code/hello/main.go, or a file by its path in the repository
//
// go test ./test/docs -run TestCode -update copies the code into the pages.
//
// Commands are blocks of sh or console. TestEmuPages runs them as they are printed, all of a page in one shell, in a
// folder with the whole files of the page and a module that requires this one (an empty folder, if the page has
// "go mod init"). The programs of .build/bin are in PATH, and "go get" and "go install" of this module's "latest" take
// the working tree. After "emu -- bash" the next commands are that shell's. Every command must succeed. In a console
// block a line that begins with "$ " is a command, and each other line must be in the output; "…" in it stands for any
// text.
//
//	<!-- file: lend/main.go -->        in front of commands: they need this file, which the page only links
//	<!-- not run: needs two hosts -->  in front of commands that no test runs: the reason
//	<!-- tested: test/kube -->         in front of code that a test of this package runs
//
// Every program below test/docs/code also runs under the emulator: by the page that prints it, or by TestEmuPrograms,
// which compares its output with the comment "// Output:" at the end of main.go.
//
// TestLinks follows the links of all pages.
package docs
