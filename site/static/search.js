// The search of the site: pages.js has the text of all pages, and is read when somebody begins to type. These are classic scripts,
// because a browser reads no modules from a disk.
'use strict'

const words = text => text.toLowerCase().match(/[\p{L}\p{N}_.@-]+/gu) ?? []

// find returns the best pages for a query, each with the heading that fits best and the text around the first word. A page must
// have every word, the last one perhaps unfinished. A word of the title counts most, one of a heading next.
function find(pages, query, most = 12) {
	const wanted = words(query)
	if (!wanted.length) return []
	const hits = []
	for (const page of pages) {
		const title = page.title.toLowerCase(), text = page.text.toLowerCase()
		let score = 0
		for (const word of wanted) {
			const inTitle = title.includes(word)
			const headings = page.headings.filter(h => h.text.toLowerCase().includes(word)).length
			const times = Math.min(text.split(word).length - 1, 10)
			if (!inTitle && !headings && !times) { score = 0; break }
			score += 40 * inTitle + 12 * Math.min(headings, 2) + times
		}
		if (!score) continue
		if (page.section === 'Decisions') score /= 4
		hits.push({ page, score, heading: headingFor(page, wanted), around: around(page.text, text, wanted[0]) })
	}
	return hits.sort((a, b) => b.score - a.score || a.page.path.localeCompare(b.page.path)).slice(0, most)
}

function headingFor(page, wanted) {
	let best, most = 0
	for (const heading of page.headings) {
		const has = wanted.filter(word => heading.text.toLowerCase().includes(word)).length
		if (has > most) [best, most] = [heading, has]
	}
	return best
}

function around(text, lower, word) {
	const at = Math.max(lower.indexOf(word), 0), from = Math.max(at - 50, 0)
	return (from ? '…' : '') + text.slice(from, at + 90) + '…'
}

function show(list, hits, root) {
	list.replaceChildren(...hits.map(({ page, heading, around }) => {
		const link = document.createElement('a')
		link.href = root + page.path + (heading ? '#' + heading.id : '')
		link.textContent = page.title + (heading ? ' › ' + heading.text : '')
		const more = document.createElement('small')
		more.textContent = page.section + ': ' + around
		link.append(more)
		const item = document.createElement('li')
		item.append(link)
		return item
	}))
	if (!hits.length) list.append(Object.assign(document.createElement('li'), { textContent: 'Nothing is found.' }))
}

function start(root) {
	const input = document.getElementById('search'), list = document.getElementById('found')
	let reading
	const read = () => new Promise((resolve, reject) => {
		const script = Object.assign(document.createElement('script'), { src: root + 'pages.js', onerror: reject, onload: () => resolve(window.orchPages) })
		document.head.append(script)
	})
	input.addEventListener('input', async () => {
		const all = await (reading ??= read())
		list.hidden = !input.value.trim()
		if (!list.hidden) show(list, find(all, input.value), root)
	})
	document.addEventListener('keydown', event => {
		if (event.key === '/' && document.activeElement !== input) { event.preventDefault(); input.focus() }
		if (event.key === 'Escape') list.hidden = true
		if (event.key !== 'ArrowDown' && event.key !== 'ArrowUp' || list.hidden) return
		const links = [input, ...list.querySelectorAll('a')]
		const at = links.indexOf(document.activeElement)
		if (at < 0) return
		event.preventDefault()
		links[Math.min(Math.max(at + (event.key === 'ArrowDown' ? 1 : -1), 0), links.length - 1)].focus()
	})
	input.addEventListener('keydown', event => { if (event.key === 'Enter') list.querySelector('a')?.click() })
}

start(document.currentScript.dataset.root)
