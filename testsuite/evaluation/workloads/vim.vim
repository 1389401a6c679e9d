%s/\v([aeiou])([^aeiou ])/\2\1/g
g/\v(\w)\1.*ta>/s/\v<(\w)(\w*)>/\u\1\2/g
%s/\v<(\w+) (\w+)>/\2 \1/
g/ka$/m0
v/ta/d
sort
%s/\v%(a|e){1,3}[b-d]+/<&>/ge
%norm 2wAx
wq! result
