package secrets

// Keywords returns the keywords of the rules that are data, and of those that are code, each once.
func Keywords() (described, coded []string) {
	known := map[string]bool{}
	add := func(list []string, keys []key) []string {
		for _, k := range keys {
			if !known[k.text] {
				known[k.text] = true
				list = append(list, k.text)
			}
		}
		return list
	}
	for _, keys := range [][]key{shapes(), headers(), assignments()} {
		coded = add(coded, keys)
	}
	return add(nil, providers()), coded
}
