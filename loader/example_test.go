package loader_test

import (
	"fmt"

	"github.com/ebitengine/purego"

	"github.com/pureverbs/pureverbs/loader"
)

// What to put into a bug report.
func ExampleReport() {
	fmt.Print(loader.Report())
}

func ExampleNames() {
	fmt.Println(loader.Names())
	// Output:
	// [libibverbs.so.1 librdmacm.so.1 libmlx5.so.1 libefa.so.1]
}

// A C function that this module does not bind is called by its address. ibv's Control methods lend the C objects that
// such functions take.
func ExampleLibrary_Symbol() {
	lib, err := loader.Open(loader.IBVerbs)
	if err != nil {
		fmt.Println(err) // says what to install
		return
	}
	addr, err := lib.Symbol("ibv_wc_status_str")
	if err != nil {
		fmt.Println(err) // says which release has it
		return
	}
	var text func(status int32) string
	purego.RegisterFunc(&text, addr)
	fmt.Println(text(12))
}
